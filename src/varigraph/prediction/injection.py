"""Dropout for a network that has none."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from contextvars import ContextVar
from typing import Any

import torch_geometric.nn as gnn
from torch import Tensor, nn
from torch.nn import functional as F

from varigraph.errors import ModelError, OptionError
from varigraph.moments.gaussian import TensorLike
from varigraph.moments.propagation import Propagation, current


class InjectedRate(float):
    """The rate of dropout that is not the network's own: it is known by this type."""


_injecting: ContextVar[InjectedRate | None] = ContextVar("injecting", default=None)


class _Before:
    """Drops out what enters a layer, except for the first layer of a pass: data is not weights."""

    def __init__(self, rate: InjectedRate, plain: bool) -> None:
        self.rate, self.plain = rate, plain
        self.passing: Propagation | None = None

    def __call__(
        self, layer: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> tuple[tuple[Any, ...], dict[str, Any]] | None:
        if self.passing is not current():
            self.passing = current()
            return None
        entering = enumerate((*args, *kwargs.values()))
        dropped = [self._drop(arg, first=place == 0) for place, arg in entering]
        return tuple(dropped[: len(args)]), dict(zip(kwargs, dropped[len(args) :], strict=True))

    def _drop(self, arg: Any, *, first: bool) -> Any:
        if isinstance(arg, TensorLike):
            return arg.answer(F.dropout, arg, self.rate)
        # Among plain tensors only the first comes from the layer before: not links, nor weights.
        return (
            F.dropout(arg, self.rate) if self.plain and first and isinstance(arg, Tensor) else arg
        )


@contextmanager
def injected(model: nn.Module, rate: float, *, plain: bool = False) -> Iterator[None]:
    """While this is open, dropout acts before every dense and message-passing layer but the first.

    Args:
        model: a network without dropout of its own.
        rate: chance of a hidden unit to be dropped, between 0 and 1.
        plain: drop units of plain tensors as well, not only of Gaussians.
    """
    if not 0 < rate < 1:
        raise OptionError(f"dropout={rate} is not a rate", "give a number between 0 and 1: 0.1")
    layers = list(outer_layers(model))
    if len(layers) < 2:
        raise ModelError(
            f"{type(model).__name__} has {len(layers)} layer(s): there is no place for dropout",
            "dropout goes between layers; leave dropout= out, or take samples=0",
        )
    injecting = InjectedRate(rate)
    before, token = _Before(injecting, plain), _injecting.set(injecting)
    with ExitStack() as stack:
        stack.callback(_injecting.reset, token)
        for layer in layers:
            handle = layer.register_forward_pre_hook(before, with_kwargs=True)
            stack.callback(handle.remove)
        yield


def refuse_own_dropout(rate: float) -> None:
    """Raises where a network that is being given dropout turns out to have its own.

    Every method asks this wherever dropout acts.

    Args:
        rate: of the dropout that acts.
    """
    injecting = _injecting.get()
    if injecting is not None and not isinstance(rate, InjectedRate):
        raise OptionError(
            f"dropout={float(injecting)} is for networks without dropout; this one has its own, "
            f"of rate {rate}",
            "leave dropout= out",
        )


def outer_layers(module: nn.Module) -> Iterator[nn.Module]:
    """Dense and message-passing layers, not the dense layers inside of the latter."""
    if isinstance(module, (gnn.MessagePassing, nn.Linear, gnn.Linear)):
        yield module
        return
    for child in module.children():
        yield from outer_layers(child)
