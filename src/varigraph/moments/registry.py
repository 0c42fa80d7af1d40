"""One table of rules: how mean and variance pass through a torch function or a layer.

A rule is a free function with the signature of what it stands for, so that this folder reads as
``torch.nn.functional`` for Gaussians. Free functions in an open table, rather than methods of
:class:`Gaussian`, let a user add a rule for a layer of their own without touching this package.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal, TypeVar

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from varigraph.errors import MissingRuleError, OptionError

Exactness = Literal["exact", "exact for independent inputs", "approximate"]
Apply = TypeVar("Apply", bound=Callable[..., Any])

#: Methods that a subclass may write anew without changing what the layer computes.
HARMLESS = frozenset({"__init__", "reset_parameters", "__repr__", "extra_repr"})


@dataclass(frozen=True)
class Rule:
    """How moments pass through one target.

    Args:
        apply: the function that maps Gaussians to Gaussians.
        exactness: how far the result can be trusted.
        names: what the rule stands for, as shown in the table of rules.
        note: what is assumed or ignored.
    """

    apply: Callable[..., Any]
    exactness: Exactness
    names: tuple[str, ...]
    note: str = ""

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Apply the rule; options that it does not know are refused, never ignored."""
        form = (len(args), *kwargs)
        if form not in self._accepted:
            self._refuse_unknown(*args, **kwargs)
            self._accepted.add(form)
        return self.apply(*args, **kwargs)

    @property
    def by_number(self) -> bool:
        """Whether it looks at every number by itself, whatever the shape."""
        return self.apply in BY_NUMBER

    @property
    def shipped(self) -> bool:
        """Whether the rule came with this package."""
        return self.apply.__module__.startswith("varigraph.moments.")

    @cached_property
    def _accepted(self) -> set[tuple[Any, ...]]:
        """Numbers of arguments, and names of options, that the rule was called with before."""
        return set()

    def _refuse_unknown(self, *args: Any, **kwargs: Any) -> None:
        try:
            inspect.signature(self.apply).bind(*args, **kwargs)
        except TypeError as unknown:
            raise MissingRuleError(
                f"the moment rule for {self.names[0]}() cannot be called like this: {unknown}",
                "call it without that option, or write a rule for the layer that does",
            ) from None


FUNCTIONS: dict[Callable[..., Any], Rule] = {}
BY_NUMBER: set[Callable[..., Any]] = set()
IN_PLACE: set[Callable[..., Any]] = set()
LAYERS: dict[type[nn.Module], Rule] = {}
#: torch's own modules whose ``forward`` only calls functions that have rules, with these rules.
TRANSPARENT: dict[type[nn.Module], Rule] = {}


def implements(
    *targets: str | Callable[..., Any] | type[nn.Module],
    exactness: Exactness,
    modules: Iterable[type[nn.Module]] = (),
    note: str = "",
    label: str = "",
) -> Callable[[Apply], Apply]:
    """Register the decorated function as the rule for ``targets``.

    Args:
        targets: an operation's name (``"relu"`` stands for ``torch.relu``, ``F.relu``,
            ``Tensor.relu`` and their in-place forms), a torch function, or a layer class.
        exactness: ``"exact"``, ``"exact for independent inputs"`` or ``"approximate"``.
        modules: torch modules whose ``forward`` only calls the targets (``nn.ReLU``).
        note: what is assumed or ignored, for the table of rules.
        label: what the targets are called there, where that is not their own names.

    A rule for a function takes the function's arguments; a rule for a layer takes the layer
    first. A target that has a rule already is refused: two rules for one thing are one too many.
    """

    def register(apply: Apply) -> Apply:
        names = dict.fromkeys(t if isinstance(t, str) else t.__name__ for t in targets)
        rule = Rule(apply, exactness, (label,) if label else tuple(names), note)
        for target in targets:
            if isinstance(target, type):
                _add(LAYERS, target, rule)
            else:
                for function in _functions(target):
                    _add(FUNCTIONS, function, rule)
        TRANSPARENT.update(dict.fromkeys(modules, rule))
        return apply

    return register


def by_number(apply: Apply) -> Apply:
    """Say of a rule that it looks at every number by itself, whatever the shape."""
    BY_NUMBER.add(apply)
    return apply


def _add(table: dict[Any, Rule], target: Any, rule: Rule) -> None:
    if target in table:
        raise OptionError(
            f"{target.__name__} has a rule already: {table[target].apply.__qualname__}",
            f"remove the old one first: {'LAYERS' if table is LAYERS else 'FUNCTIONS'}.pop(target)",
        )
    table[target] = rule


def _functions(target: str | Callable[..., Any]) -> list[Callable[..., Any]]:
    """What a target stands for; remembers which of the functions work in place."""
    if not isinstance(target, str):
        return [target]
    in_place = spellings(f"{target}_")
    IN_PLACE.update(in_place)
    return spellings(target) + in_place


def spellings(name: str) -> list[Callable[..., Any]]:
    """The functions that torch offers under one name."""
    found = {getattr(home, name, None) for home in (torch, F, Tensor)}
    return [function for function in found if callable(function)]


def rule_for_function(function: Callable[..., Any]) -> Rule:
    """The rule of a torch function, or :class:`MissingRuleError`."""
    if function in FUNCTIONS:
        return FUNCTIONS[function]
    name = getattr(function, "__name__", repr(function))
    raise MissingRuleError(
        f"no moment rule for the torch function {name}()",
        f'write one: @implements("{name}", exactness=...) above a function that returns a Gaussian',
    )


def rule_for_layer(layer: nn.Module) -> Rule | None:
    """The rule of a layer, or None.

    A subclass inherits its parent's rule only if it leaves the computation alone: one that
    overrides ``message`` computes something else, and the parent's rule would be silently wrong.
    """
    for parent in type(layer).__mro__:
        if parent in LAYERS:
            return None if overridden(type(layer), parent) else LAYERS[parent]
    return None


def overridden(child: type, parent: type) -> list[str]:
    """Names of the methods of ``parent`` that ``child`` writes anew, harmless ones left out."""
    between = child.__mro__[: child.__mro__.index(parent)]
    written = {
        name
        for owner in between
        for name, value in vars(owner).items()
        if callable(value) and not _generated(owner, name, value)
    }
    return sorted(name for name in written - HARMLESS if hasattr(parent, name))


def _generated(owner: type, name: str, method: Any) -> bool:
    """Whether torch_geometric compiled this method from a template, the same for every layer."""
    template = f"{owner.__module__}_{owner.__name__}_"
    return name.startswith(("_orig_", "_jinja_")) or method.__module__.startswith(template)
