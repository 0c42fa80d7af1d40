"""Running a user's model: on stand-ins by rules, or on plain tensors; untouched afterwards."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import Parameter
from torch_geometric.nn import MessagePassing

from varigraph.errors import MissingRuleError, ModelError
from varigraph.moments.gaussian import Gaussian, TensorLike
from varigraph.moments.module_state import is_cache, untouched
from varigraph.moments.propagation import current
from varigraph.moments.registry import (
    IN_PLACE,
    LAYERS,
    TRANSPARENT,
    Rule,
    overridden,
    rule_for_function,
    rule_for_layer,
)
from varigraph.moments.softmax import Logits, passes_logits

#: What models are called with besides guises, most of the time.
PLAIN = frozenset([Tensor, Parameter, str, bool, int, float, type(None)])


#: Functions whose result is a tensor's own numbers, or some of them, seen in another way.
VIEWS = frozenset(
    [
        "__getitem__",
        "chunk",
        "contiguous",
        "detach",
        "expand",
        "expand_as",
        "flatten",
        "narrow",
        "permute",
        "ravel",
        "reshape",
        "select",
        "split",
        "squeeze",
        "swapaxes",
        "t",
        "to",
        "tensor_split",
        "transpose",
        "unbind",
        "unflatten",
        "unsqueeze",
        "view",
        "view_as",
    ]
)


class _Storage:
    """How often the numbers that several guises share were changed in place."""

    version = 0


class StandIn(TensorLike):
    """A :class:`Gaussian` in the guise of a tensor, handed to the user's own code.

    The value itself has attributes ``mean`` and ``var``; a tensor has methods of these names.
    The guise keeps them apart, and it can change its value where a tensor would change in place.
    """

    def __init__(self, value: Gaussian, storage: _Storage | None = None) -> None:
        self._value, self._storage = value, storage or _Storage()
        self._seen = self._storage.version

    @property
    def value(self) -> Gaussian:
        """What stands behind the guise.

        Raises:
            MissingRuleError: its numbers were changed in place by way of another guise.
        """
        if self._seen != self._storage.version:
            raise MissingRuleError(
                "the model changes part of a value in place, as h[:, :4].mul_(2) does, and uses "
                "the value itself afterwards",
                'put the parts together again, h = torch.cat([...], 1), or take method="sampled"',
            )
        return self._value

    def change(self, value: Gaussian) -> None:
        """Change in place; what shares its numbers is of no use any more."""
        self._storage.version += 1
        self._value, self._seen = value, self._storage.version

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
        return disguise(result, _shared_storage(function, args, result))

    def __repr__(self) -> str:
        return f"StandIn({self.value!r})"


def reveal(tree: Any) -> Any:
    """Replace every guise in nested lists, tuples and dicts by its value."""
    return _map(tree, StandIn, lambda guise: guise.value)


def disguise(tree: Any, storage: _Storage | None = None) -> Any:
    """Put every Gaussian in nested lists, tuples and dicts under a guise.

    Args:
        tree: what holds them.
        storage: what their numbers are part of; None where they are new.
    """
    return _map(tree, Gaussian, lambda value: StandIn(value, storage))


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


def _shared_storage(function: Callable[..., Any], args: Any, result: Any) -> _Storage | None:
    """What a result's numbers are part of, if they are somebody's already."""
    first = args[0] if args else None
    if not isinstance(first, StandIn):
        return None
    picks = function.__name__ == "__getitem__" and not _is_basic(args[1])  # which makes a copy
    shares = function.__name__ in VIEWS and not picks
    return first._storage if shares or result is first._value else None


def _is_basic(index: Any) -> bool:
    parts = index if isinstance(index, tuple) else (index,)
    return all(part is None or isinstance(part, (int, slice, type(...))) for part in parts)


def _change(target: Any, result: Any) -> None:
    if isinstance(target, StandIn):
        target.change(result)
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


CPU = torch.device("cpu")


@contextmanager
def running(model: nn.Module, *, by_rules: bool, device: torch.device = CPU) -> Iterator[None]:
    """While this is open, ``model`` can be run; it and torch's generators are as before afterwards.

    The model is in evaluation mode, as in any other use of it; dropout is opened where it is met,
    and nothing else is. Everything of the model runs as it is written, weights, classes and
    ``state_dict`` stay untouched. What passes leave on modules, modes, caches, what users store
    there, is taken back.

    Args:
        model: any torch_geometric network.
        by_rules: layers that have a rule are routed to it, so that the model maps Gaussians to
            Gaussians; else it maps plain tensors, and layers cache what does not depend on them.
        device: where it runs.

    Raises:
        MissingRuleError: a layer has no rule and is to have one. All of them are named at once.
    """
    if by_rules:
        _refuse_uncovered(model)
    with ExitStack() as stack:
        stack.enter_context(torch.random.fork_rng([device] if device.type == "cuda" else []))
        stack.enter_context(untouched(model))
        for module in model.modules():
            module.training = False
        if by_rules:
            for module in model.modules():
                rule = rule_for_layer(module)
                if rule is not None:
                    stack.enter_context(_routed(module, rule))
        else:
            stack.enter_context(_sound_caches(model))
        yield


@contextmanager
def no_randomness(device: torch.device, problem: str, remedy: str) -> Iterator[None]:
    """Refuse models that draw random numbers meanwhile where nobody can see it, e.g. drop links.

    Args:
        device: where the model runs.
        problem: what is said then.
        remedy: and what to do.
    """
    before = generator_state(device)
    yield
    if not torch.equal(before, generator_state(device)):
        raise ModelError(problem, remedy)


def generator_state(device: torch.device) -> Tensor:
    """The state of the generators that a model on a device draws from."""
    if device.type != "cuda":
        return torch.get_rng_state()
    return torch.cat([torch.get_rng_state(), torch.cuda.get_rng_state(device)])


@contextmanager
def _routed(layer: nn.Module, rule: Rule) -> Iterator[None]:
    """While this is open, ``layer(x)`` applies the rule."""

    def forward(*args: Any, **kwargs: Any) -> Any:
        if not guised((args, kwargs)):  # called by another rule, not by the model's own code
            return rule(layer, *args, **kwargs)
        values = reveal((args, kwargs))
        result = current().step(lambda: rule(layer, *values[0], **values[1]))
        current().note(result, rule)
        return disguise(result)

    if "forward" in vars(layer):
        raise ModelError(
            f"{type(layer).__name__} carries a forward of its own, put there at run time",
            "remove it (del layer.forward), or write a rule for a subclass of the layer",
        )
    object.__setattr__(layer, "forward", forward)
    try:
        yield
    finally:
        object.__delattr__(layer, "forward")


def uncovered(model: nn.Module) -> dict[str, str]:
    """Layers without a rule: where they are in the model, and why they have none."""
    return {
        name or "the model itself": reason
        for name, module in model.named_modules()
        if (reason := _why_uncovered(module)) is not None
    }


def _why_uncovered(module: nn.Module) -> str | None:
    kind = type(module)
    if rule_for_layer(module) is not None:
        return _why_altered(module) if isinstance(module, MessagePassing) else None
    parent = next((p for p in kind.__mro__ if p in LAYERS), None)
    if parent is not None:
        methods = ", ".join(f"{name}()" for name in overridden(kind, parent))
        return f"{kind.__name__} overrides {methods}, so the rule of {parent.__name__} may not hold"
    foreign = kind.__module__.startswith("torch.nn.") and kind not in TRANSPARENT
    return f"{kind.__name__}" if foreign or isinstance(module, MessagePassing) else None


def _why_altered(layer: MessagePassing) -> str | None:
    hooks = [name for name, value in vars(layer).items() if "_forward_" in name and value]
    # torch's own hooks run around a layer, whoever computes it; those of messages run inside.
    inside = [name for name in hooks if name.startswith(("_propagate", "_message", "_aggregate"))]
    if inside or layer._explain:
        return f"{type(layer).__name__} has hooks or an explanation mask that change its messages"
    return None


def _refuse_uncovered(model: nn.Module) -> None:
    missing = uncovered(model)
    if missing:
        width = max(map(len, missing))
        lines = "".join(f"\n    {name:<{width}}  {reason}" for name, reason in missing.items())
        raise MissingRuleError(
            f"no moment rule for {len(missing)} layer(s) of {type(model).__name__}:{lines}",
            "write a rule, @vg.implements(Layer, exactness=...) above a function that maps "
            "Gaussians, and test it with varigraph.testing",
        )


@contextmanager
def _sound_caches(model: nn.Module) -> Iterator[None]:
    """While this is open, layers normalise their links once, and forget the rest.

    A layer with ``cached=True`` that keeps neighbour sums of the features (``SGConv``) would answer
    for those of an earlier run. One that keeps the normalised links (``GCNConv``) has no reason to
    compute them again in every run, whatever ``cached`` says, as long as it is given the same
    links. What stood in the caches before belongs to another graph, and comes back afterwards.

    Args:
        model: any network.
    """
    with ExitStack() as stack:
        for layer in model.modules():
            held = {name: value for name, value in vars(layer).items() if is_cache(name)}
            if "cached" not in vars(layer) or not held:
                continue
            stack.callback(vars(layer).update, {**held, "cached": vars(layer)["cached"]})
            vars(layer).update({**dict.fromkeys(held), "cached": False})
            if "_cached_edge_index" in held:
                vars(layer)["cached"] = True
                watch = layer.register_forward_pre_hook(_SameLinks(), with_kwargs=True)
                stack.callback(watch.remove)
        yield


def unchanged(tensor: Tensor, before: tuple[Tensor, int] | None) -> bool:
    """Whether a tensor holds the same numbers as one seen before, with its version then."""
    if before is None or before[0]._version != before[1]:
        return False
    if tensor is before[0] or tensor.layout != torch.strided:
        return tensor is before[0]
    return torch.equal(tensor, before[0])


class _SameLinks:
    """A hook that empties a layer's caches when anything but its features has changed."""

    def __init__(self) -> None:
        self._before: list[tuple[Tensor, int]] = []

    def __call__(self, layer: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        others = (*args[1:], *(value for name, value in kwargs.items() if name != "x"))
        links = [other for other in others if isinstance(other, Tensor)]
        known = len(links) == len(self._before)
        if not known or not all(map(unchanged, links, self._before)):
            held = [name for name in vars(layer) if is_cache(name)]
            vars(layer).update(dict.fromkeys(held))
            self._before = [(tensor, tensor._version) for tensor in links]
