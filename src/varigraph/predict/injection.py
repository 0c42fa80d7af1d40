"""Dropout for a network that has none."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import torch_geometric.nn as gnn
from torch import nn
from torch.nn import functional as F

from varigraph.errors import ModelError, OptionError
from varigraph.moments.gaussian import TensorLike
from varigraph.moments.propagation import Propagation, current


class _Before:
    """Drops out what enters a layer, except for the first layer of a pass: data is not weights."""

    def __init__(self, rate: float) -> None:
        self.rate = rate
        self.passing: Propagation | None = None

    def __call__(
        self, layer: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> tuple[tuple[Any, ...], dict[str, Any]] | None:
        if self.passing is not current():
            self.passing = current()
            return None
        return tuple(map(self._drop, args)), {key: self._drop(arg) for key, arg in kwargs.items()}

    def _drop(self, arg: Any) -> Any:
        return arg.answer(F.dropout, arg, self.rate) if isinstance(arg, TensorLike) else arg


@contextmanager
def injected(model: nn.Module, rate: float) -> Iterator[None]:
    """While this is open, dropout acts before every dense and message-passing layer but the first.

    Args:
        model: a network without dropout of its own.
        rate: chance of a hidden unit to be dropped, between 0 and 1.
    """
    if not 0 < rate < 1:
        raise OptionError(f"dropout={rate} is not a rate", "give a number between 0 and 1: 0.1")
    layers = list(_outer_layers(model))
    if len(layers) < 2:
        raise ModelError(
            f"{type(model).__name__} has {len(layers)} layer(s): there is no place for dropout",
            "dropout goes between layers; leave dropout= out, or take samples=0",
        )
    before = _Before(rate)
    with ExitStack() as stack:
        for layer in layers:
            handle = layer.register_forward_pre_hook(before, with_kwargs=True)
            stack.callback(handle.remove)
        yield


def _outer_layers(module: nn.Module) -> Iterator[nn.Module]:
    """Dense and message-passing layers, not the dense layers inside of the latter."""
    if isinstance(module, (gnn.MessagePassing, nn.Linear, gnn.Linear)):
        yield module
        return
    for child in module.children():
        yield from _outer_layers(child)
