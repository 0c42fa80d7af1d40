"""What is asked: a model, a graph, and what to consider about them."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from reprlib import repr as shortened
from typing import Any, Literal

from torch import Tensor, nn

from varigraph.errors import OptionError
from varigraph.moments import Gaussian, LinkProbabilities
from varigraph.moments.affine import Affine, InputNoise
from varigraph.moments.gaussian import unexpanded
from varigraph.prediction.prediction import Task
from varigraph.prediction.sources.source import SOURCES, only

Weights = Literal["closed-form", "sampled"]
#: Told the number of steps done and the number of steps.
Progress = Callable[[int, int], None]

#: What sums over neighbours keep of every link, and what they take while they are prepared.
BYTES_PER_LINK, WHILE_PREPARED = 28, 80
#: Below this torch's own buffers would decide.
LEAST_ROOM = 2**24


def silent(done: int, total: int) -> None:
    """Progress that nobody is told."""


@dataclass(frozen=True, eq=False)
class Question:
    """Everything that a method needs to know.

    A source that is not considered is held at its mean: features at ``x``, coins at their
    chances, dropout masks at 1.

    Args:
        model: the trained network.
        run: calls it with what stands in the place of the features.
        x: the features and the variance of their noise.
        links: chances of the links, where the graph has them and they are to be considered.
        sources: what to consider.
        samples: number of dropout masks or of draws.
        seed: key of all draws.
        task: what the model's output means.
        nodes: nodes to answer for, as indices from 0 or as a mask; None for all.
        memory: bound in bytes on all that is added to the process.
        dropout: rate to inject into a network that has no dropout.
        weights: dropout in closed form or by sampled masks; None for what the method does.
        draws: number of draws of everything, whatever is considered, for methods that draw.
        progress: told how much of the work is done, and of how much.
        edges: number of links in the graph, each direction counted.
        given: what the graph says about further sources, by their names.
    """

    model: nn.Module
    run: Callable[[Any], Any]
    x: Gaussian
    links: LinkProbabilities | None
    sources: frozenset[str]
    samples: int
    seed: int
    task: Task
    nodes: Tensor | None
    memory: int
    dropout: float | None = None
    draws: int = 0
    weights: Weights | None = None
    progress: Progress = silent
    edges: int = 0
    given: Mapping[str, Any] = field(default_factory=dict)
    prepared: dict[Hashable, Any] = field(default_factory=dict, init=False, repr=False)

    @cached_property
    def noisy(self) -> bool:
        """Whether there is noise in the features."""
        return bool(unexpanded(self.x.var).any())

    @cached_property
    def room(self) -> int:
        """Bytes that are left for the work beside what is kept of the links."""
        need = WHILE_PREPARED * self.edges + LEAST_ROOM
        if self.memory < need:
            raise OptionError(
                f"{self.edges:,} links need more than the memory of {self.memory / 2**20:,.0f} MiB",
                f'memory="{math.ceil(need / 2**20)}MiB", or more',
            )
        return self.memory - BYTES_PER_LINK * self.edges

    @property
    def masked(self) -> bool:
        """Whether dropout is considered."""
        return self.samples > 0

    @property
    def linear_features(self) -> Affine:
        """The features as values that are linear in their own noise."""
        return Affine.features(self.x.mean, self._noise)

    @cached_property
    def _noise(self) -> InputNoise:
        return InputNoise.of(self.x.var, self.room)

    def only(self, *sources: str) -> Question:
        """The same question about fewer sources; the others are held at their means."""
        return only(self, self.sources & set(sources))


def check_sources(sources: Sequence[str] | None) -> frozenset[str]:
    """The sources to consider; all of them by default."""
    known = tuple(SOURCES)
    if sources is None:
        return frozenset(known)
    listed = [] if isinstance(sources, str) or not isinstance(sources, Iterable) else list(sources)
    if not listed or not all(isinstance(each, str) and each in known for each in listed):
        raise OptionError(
            f"sources={shortened(sources)} does not name sources", f"some of {known}, in a tuple"
        )
    return frozenset(listed)
