"""Layers whose inputs did not change since the last run are not computed again."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from varigraph.prediction.injection import outer_layers
from varigraph.prediction.sampled.design import Draw
from varigraph.prediction.sampled.links import DrawnLinks
from varigraph.prediction.sampled.passes import Pass
from varigraph.prediction.sources.source import SOURCES


@dataclass(frozen=True, eq=False)
class _Kept:
    """The result of a layer, and the draws that it depends on."""

    layer: nn.Module
    coins: bool  # whether it depends on coins
    draws: tuple[int | None, ...]
    result: Tensor
    version: int  # torch counts changes in place: a changed result is of no use


@dataclass
class Prefix:
    """Keeps what layers before the first dropout returned, for runs with the same draws.

    Without noise in the features that is everything up to the first dropout or the first coin,
    for all runs; with noise it is the same for two runs that share its draw.

    Args:
        links: knows whether a coin has been looked at in a run.
    """

    links: DrawnLinks | None
    _kept: dict[int, _Kept] = field(default_factory=dict)
    _place: int = 0
    _draw: Draw | None = None
    _running: Pass | None = None
    _coins_met: bool = False

    @property
    def bytes(self) -> int:
        """Memory of what is kept."""
        return sum(kept.result.nbytes for kept in self._kept.values())

    def begin(self, draw: Draw | None, running: Pass) -> None:
        """Start a run.

        Args:
            draw: its draws; None for a run like no other.
            running: knows whether dropout has acted.
        """
        self._draw, self._running = draw, running
        self._place, self._coins_met = 0, False
        if draw is not None:  # what is of no use to this run is not held beside its successor
            self._kept = {place: kept for place, kept in self._kept.items() if self._holds(kept)}

    def forget(self) -> None:
        """Start anew."""
        self._kept.clear()

    @contextmanager
    def used_by(self, model: nn.Module) -> Iterator[None]:
        """While this is open, the layers of the model are asked for here first."""
        layers = [layer for layer in outer_layers(model) if _may_be_skipped(layer)]
        for layer in layers:
            object.__setattr__(layer, "forward", self._forward(layer, layer.forward))
        try:
            yield
        finally:
            for layer in layers:
                object.__delattr__(layer, "forward")

    def _forward(self, layer: nn.Module, forward: Callable[..., Any]) -> Callable[..., Any]:
        def ask(*args: Any, **kwargs: Any) -> Any:
            if self._draw is None:
                return forward(*args, **kwargs)
            self._place += 1
            kept = self._kept.get(self._place)
            if kept is not None and kept.layer is layer and self._holds(kept):
                self._coins_met |= kept.coins
                return kept.result
            result = forward(*args, **kwargs)
            if isinstance(result, Tensor) and not self._dropped():
                coins = self._coins_met or (self.links is not None and self.links.met)
                kept = _Kept(layer, coins, self._draws(coins=coins), result, result._version)
                self._kept[self._place] = kept
            return result

        return ask

    def _holds(self, kept: _Kept) -> bool:
        if self._dropped() or kept.result._version != kept.version:
            return False
        return kept.draws == self._draws(coins=kept.coins)

    def _draws(self, *, coins: bool) -> tuple[int | None, ...]:
        """The draws that a result depends on; one like no other is told by its own entry."""
        draw = self._draw or {}
        reaching = [name for name, source in SOURCES.items() if source.reaches(coins=coins)]
        return tuple(draw.get(name) for name in ("", *reaching))

    def _dropped(self) -> bool:
        return self._running is None or bool(self._running.sites)


def _may_be_skipped(layer: nn.Module) -> bool:
    return "forward" not in vars(layer) and not isinstance(layer, torch.jit.ScriptModule)
