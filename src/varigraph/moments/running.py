"""Running a user's model: on stand-ins by rules, or on plain tensors; untouched afterwards."""

from __future__ import annotations

import inspect
import sys
from collections import OrderedDict, defaultdict
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from operator import is_
from typing import Any, TypeVar

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.modules.conv import _ConvNd
from torch_geometric.nn import Aggregation, MessagePassing

from varigraph.errors import MissingRuleError, ModelError
from varigraph.moments.gaussian import Gaussian
from varigraph.moments.links import plain, unchanged
from varigraph.moments.propagation import current
from varigraph.moments.registry import (
    FUNCTIONS,
    LAYERS,
    TRANSPARENT,
    Rule,
    overridden,
    rule_for_layer,
)
from varigraph.moments.stand_in import StandIn, aggregating, asking, disguise, guised, reveal
from varigraph.moments.summed_messages import propagating

CPU = torch.device("cpu")
DROPOUT = F.dropout
#: Layers of torch that no rule and no derivative by rows can follow.
ACROSS = (nn.RNNBase, nn.MultiheadAttention, nn.Transformer, _ConvNd)


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
            stack.enter_context(_answered_by_rules(model))
        else:
            stack.enter_context(_sound_caches(model))
        yield


@contextmanager
def _answered_by_rules(model: nn.Module) -> Iterator[None]:
    """While this is open, layers that have a rule are routed to it, and others run as written."""
    with ExitStack() as stack:
        for module in model.modules():
            rule = None if _altered(module) else rule_for_layer(module)
            if rule is not None:
                stack.enter_context(_routed(module, rule))
            elif isinstance(module, MessagePassing):
                _open_messages(module)
        stack.enter_context(_routed_functions(model))
        stack.enter_context(_watched_dropout())
        yield


@contextmanager
def _watched_dropout() -> Iterator[None]:
    """While this is open, dropout of what was not made of the features is refused."""
    before = F.dropout

    def dropout(input: Any, p: float = 0.5, training: bool = True, inplace: bool = False) -> Any:
        if isinstance(input, StandIn):
            given = {"p": p, "training": training, "inplace": inplace}
            return StandIn.__torch_function__(DROPOUT, (), (input,), given)
        if isinstance(input, Gaussian):  # in a rule
            return FUNCTIONS[DROPOUT](input, p, training, inplace)
        if p > 0 and current().masked:
            raise MissingRuleError(
                "dropout acts on something that was not made of the features",
                'method="sampled", or take the weights as certain: samples=0',
            )
        return DROPOUT(input, p, training, inplace)

    F.dropout = dropout
    try:
        yield
    finally:
        F.dropout = before


def _open_messages(layer: Any) -> None:
    """Have a layer form its messages one by one, from scratch; what it was is put back later."""
    if _plain_links in layer._propagate_forward_pre_hooks.values():
        return
    layer.fuse = False
    if "cached" in vars(layer):
        vars(layer).update({name: None for name in vars(layer) if is_cache(name)}, cached=False)
    hooks = OrderedDict(layer._propagate_forward_pre_hooks)
    hooks[len(hooks)] = _plain_links
    layer._propagate_forward_pre_hooks = hooks
    object.__setattr__(layer, "propagate", propagating(layer, layer.propagate))


def _plain_links(layer: MessagePassing, inputs: Any) -> Any:
    links, size, values = inputs
    current().as_written[type(layer).__name__] = None
    return plain(links) if isinstance(links, Tensor) else links, size, values


@contextmanager
def _routed_functions(model: nn.Module) -> Iterator[None]:
    """While this is open, functions of torch_geometric that have a rule are asked for it.

    Torch's own functions ask by themselves; these are found by name where the model's classes were
    written, and given back there.
    """
    homes = {kind.__module__ for module in model.modules() for kind in type(module).__mro__}
    with ExitStack() as stack:
        for home in homes - {"torch.nn.modules.module", "builtins"}:
            names = vars(sys.modules.get(home, sys))
            for name, function in list(names.items()):
                if inspect.isfunction(function) and function in FUNCTIONS:
                    stack.callback(names.__setitem__, name, function)
                    names[name] = asking(function)
        yield


@contextmanager
def _routed(layer: nn.Module, rule: Rule) -> Iterator[None]:
    """While this is open, ``layer(x)`` applies the rule."""
    written = layer.forward

    def forward(*args: Any, **kwargs: Any) -> Any:
        if not guised((args, kwargs)):  # called by another rule, not by the model's own code
            return rule(layer, *args, **kwargs)
        if isinstance(layer, MessagePassing) and (
            layer in current().followed
            or _between_kinds(*args, **kwargs)
            or (rule.shipped and _weighs(layer, args, kwargs))
        ):
            return as_written(*args, **kwargs)
        values = reveal((args, kwargs))
        try:
            result = current().step(lambda: rule(layer, *values[0], **values[1]))
        except MissingRuleError as missing:  # of some kinds of this layer
            if not isinstance(layer, MessagePassing):
                raise
            try:
                result = as_written(*args, **kwargs)
            except MissingRuleError:
                raise missing from None
            current().followed.add(layer)
            return result
        current().note(result, rule)
        return disguise(result)

    def as_written(*args: Any, **kwargs: Any) -> Any:
        _open_messages(layer)
        return written(*args, **kwargs)

    if isinstance(layer, Aggregation):
        forward = aggregating(layer, rule)
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


def _between_kinds(x: Any = None, *others: Any, size: Any = None, **kwargs: Any) -> bool:
    """Whether a layer sends from one kind of nodes to another: rules are about one kind."""
    return isinstance(x, (tuple, list)) or size is not None


def _weighs(layer: MessagePassing, args: Any, kwargs: Any) -> bool:
    """Whether the weights of a layer's links are uncertain: rules take them as certain."""
    if getattr(layer, "dropout", False):  # which acts on links, as its rule says
        return False
    given = inspect.signature(type(layer).forward).bind(layer, *args, **kwargs).arguments
    return guised(given.get("edge_weight"))


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
        return None
    parent = next((p for p in kind.__mro__ if p in LAYERS), None)
    if parent is not None and not isinstance(module, MessagePassing):
        methods = ", ".join(f"{name}()" for name in overridden(kind, parent))
        return f"{kind.__name__} overrides {methods}, so the rule of {parent.__name__} may not hold"
    return kind.__name__ if isinstance(module, ACROSS) and kind not in TRANSPARENT else None


def _altered(layer: nn.Module) -> bool:
    """Whether hooks, or an explanation mask, change the messages of a layer."""
    if not isinstance(layer, MessagePassing):
        return False
    hooks = [name for name, value in vars(layer).items() if "_forward_" in name and value]
    # torch's own hooks run around a layer, whoever computes it; those of messages run inside.
    inside = [name for name in hooks if name.startswith(("_propagate", "_message", "_aggregate"))]
    return bool(inside or layer._explain)


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


Result = TypeVar("Result")
#: What users keep things in.
CONTAINERS = frozenset([list, dict, set, OrderedDict, defaultdict])


@contextmanager
def untouched(model: nn.Module, *, but_caches: bool = False) -> Iterator[None]:
    """What runs leave on the modules of a model meanwhile is taken back, buffers included.

    Args:
        model: any network.
        but_caches: leave what layers of torch_geometric keep of their links, which is sound as long
            as these are the same, see :func:`running`.
    """
    found = [_State(module) for module in model.modules()]
    try:
        yield
    finally:
        for state in found:
            state.put_back(but_caches=but_caches)


def keeps_something(model: nn.Module, run: Callable[[], Result]) -> tuple[Result, bool]:
    """What a run returns, and whether it left something on the model, which is taken back.

    Args:
        model: any network.
        run: runs it.
    """
    found = [_State(module) for module in model.modules()]
    try:
        return run(), any(state.changed for state in found)
    finally:
        for state in found:
            state.put_back(but_caches=False)


class _State:
    """What is on a module: its attributes, what lists and dicts among them hold, its buffers."""

    def __init__(self, module: nn.Module) -> None:
        self._module, self._fields = module, dict(vars(module))
        self._held = [(v, v.copy()) for v in self._fields.values() if type(v) in CONTAINERS]
        buffers = (buffer for buffer in module._buffers.values() if buffer is not None)
        self._buffers = [(buffer, buffer._version, buffer.clone()) for buffer in buffers]

    @property
    def changed(self) -> bool:
        """Whether any of it is another thing by now."""
        now = vars(self._module)
        if now.keys() != self._fields.keys():
            return True
        return (
            any(now[name] is not value for name, value in self._fields.items())
            or any(not _same(container, before) for container, before in self._held)
            or any(buffer._version != version for buffer, version, _ in self._buffers)
        )

    def put_back(self, *, but_caches: bool) -> None:
        """Make it so again."""
        now = vars(self._module)
        kept = {name for name in now if but_caches and is_cache(name)}
        for name in now.keys() - self._fields.keys() - kept:
            del now[name]
        now.update({name: v for name, v in self._fields.items() if name not in kept})
        for container, before in self._held:
            if not _same(container, before):
                container.clear()
                (container.extend if isinstance(container, list) else container.update)(before)
        for buffer, version, before in self._buffers:
            if buffer._version != version:
                with torch.no_grad():
                    buffer.copy_(before)


def _same(container: Any, before: Any) -> bool:
    """Whether a list, dict or set holds the very same things."""
    if len(container) != len(before):
        return False
    if isinstance(container, set):
        return bool(container == before)
    values = (each.values() if isinstance(each, dict) else () for each in (container, before))
    return all(map(is_, container, before)) and all(map(is_, *values))


def is_cache(name: str) -> bool:
    """Whether layers of torch_geometric keep something under this name."""
    return name.startswith("_cached_")
