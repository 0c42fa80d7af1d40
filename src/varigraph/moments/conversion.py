"""Turning a trained model into one that maps Gaussians, for the time of a call."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

from torch import nn
from torch.nn.modules.batchnorm import _NormBase
from torch_geometric.nn import MessagePassing

from varigraph.errors import MissingRuleError, ModelError
from varigraph.moments.propagation import current
from varigraph.moments.registry import LAYERS, TRANSPARENT, Rule, overridden, rule_for_layer
from varigraph.moments.standin import disguise, guised, reveal


@contextmanager
def converted(model: nn.Module, *, dropout_on: bool) -> Iterator[None]:
    """While this is open, ``model`` maps Gaussians to Gaussians.

    Layers that have a rule are routed to it; everything else of the model runs as it is. Weights,
    classes and ``state_dict`` stay untouched, and all is as before when it closes.

    Args:
        model: any torch_geometric network.
        dropout_on: leave dropout on, as Monte-Carlo dropout wants it. Normalisation layers stay in
            evaluation mode all the same: their statistics are not to move.

    Raises:
        MissingRuleError: a layer has no rule. All of them are named at once.
    """
    _refuse_uncovered(model)
    modes = {module: module.training for module in model.modules()}
    with ExitStack() as stack:
        try:
            for module in modes:
                module.training = dropout_on and not is_normalisation(module)
                rule = rule_for_layer(module)
                if rule is not None:
                    stack.enter_context(_routed(module, rule))
            yield
        finally:
            for module, training in modes.items():
                module.training = training


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


def is_normalisation(module: nn.Module) -> bool:
    """Whether a module normalises by statistics, which are not to move at prediction time."""
    home = type(module).__module__
    return isinstance(module, _NormBase) or home.startswith("torch_geometric.nn.norm.")
