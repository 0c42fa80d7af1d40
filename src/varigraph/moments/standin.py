"""What a model sees in the place of its input tensor."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch import Tensor
from torch.nn import Parameter

from varigraph.errors import MissingRuleError
from varigraph.moments.gaussian import Gaussian, TensorLike
from varigraph.moments.propagation import current
from varigraph.moments.registry import IN_PLACE, rule_for_function
from varigraph.moments.softmax import Logits, passes_logits

#: What models are called with besides guises, most of the time.
PLAIN = frozenset([Tensor, Parameter, str, bool, int, float, type(None)])


class StandIn(TensorLike):
    """A :class:`Gaussian` in the guise of a tensor, handed to the user's own code.

    The value itself has attributes ``mean`` and ``var``; a tensor has methods of these names.
    The guise keeps them apart, and it can change its value where a tensor would change in place.
    """

    def __init__(self, value: Gaussian) -> None:
        self.value = value

    def _tensor(self) -> Tensor:
        return self.value.mean

    @classmethod
    def answer(cls, function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        """Apply a rule to the values behind the guises; in-place forms change the first one."""
        rule = rule_for_function(function)
        values = reveal((args, kwargs))
        _no_work_after_softmax(function, values)
        result = current().step(lambda: rule(*values[0], **values[1]))
        current().note(result, rule)
        if function in IN_PLACE or kwargs.get("inplace", False):
            _change(args[0], result)
            return args[0] if isinstance(args[0], cls) else disguise(result)
        return disguise(result)

    def __repr__(self) -> str:
        return f"StandIn({self.value!r})"


def reveal(tree: Any) -> Any:
    """Replace every guise in nested lists, tuples and dicts by its value."""
    return _map(tree, StandIn, lambda guise: guise.value)


def disguise(tree: Any) -> Any:
    """Put every Gaussian in nested lists, tuples and dicts under a guise."""
    return _map(tree, Gaussian, StandIn)


def guised(tree: Any) -> bool:
    """Whether a guise is anywhere in nested lists, tuples and dicts."""
    return bool(_found(tree, StandIn))


def _found(tree: Any, kind: type) -> list[Any]:
    found: list[Any] = []
    _map(tree, kind, found.append)
    return found


def _map(tree: Any, kind: type, change: Callable[[Any], Any]) -> Any:
    if type(tree) in PLAIN:
        return tree
    if isinstance(tree, kind):
        return change(tree)
    if isinstance(tree, dict):
        return {key: _map(value, kind, change) for key, value in tree.items()}
    if isinstance(tree, (list, tuple)):
        parts = [_map(value, kind, change) for value in tree]
        return type(tree)(*parts) if hasattr(tree, "_fields") else type(tree)(parts)
    return tree


def _change(target: Any, result: Any) -> None:
    if isinstance(target, StandIn):
        target.value = result
    elif isinstance(target, Tensor):
        # A plain tensor cannot hold a variance. Whoever reads it later must not find the old
        # numbers there: NaN is caught at the end of the pass.
        target.fill_(float("nan"))


def _no_work_after_softmax(function: Callable[..., Any], values: Any) -> None:
    if _found(values, Logits) and not passes_logits(function):
        raise MissingRuleError(
            f"the model computes {function.__name__}() on the result of a softmax; "
            "a softmax has a rule only as the last step of a network",
            "return the logits (or their softmax) from the model",
        )
