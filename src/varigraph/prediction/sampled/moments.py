"""Moments of runs as they come in."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from itertools import chain

import torch
from torch import Tensor

from varigraph.prediction.sampled.design import Design
from varigraph.prediction.sampled.figures import FEWEST_BATCHES, Estimate, Figures

#: Runs are summed in so many batches; the spread between those is the standard error, to 13 %.
BATCHES = 32
#: Numbers that the sums may take; very large graphs have fewer batches.
MOST_SUMS = 2**25
WHOLE = slice(None)


def batches_of(design: Design, numbers: int) -> int:
    """How many batches the runs are summed in, for answers of so many numbers."""
    groups, sums = design.runs // design.group, 2 + len(design.pairs)
    fitting = max(FEWEST_BATCHES, MOST_SUMS // (sums * max(numbers, 1)))
    return min(BATCHES, fitting, groups) if groups >= FEWEST_BATCHES else 1


class SampledMoments:
    """Sums of groups of runs, as they come in, and the figures that they give.

    Sums are taken around the first run: no digits are lost for large answers.

    Args:
        like: has the shape and the dtype of an answer, ``[nodes, classes]``.
        design: which runs share what.
        by_source: tell the sources apart, or know only their sum.
    """

    def __init__(self, like: Tensor, design: Design, *, by_source: bool = True) -> None:
        groups, batches = design.runs // design.group, batches_of(design, like.numel())
        self._group, self._terms = design.group, 1 + len(design.pairs)
        self._sources = tuple(design.pairs) if by_source else ()
        self._pairs = list(design.pairs.values())
        if self._pairs and not by_source:
            self._pairs = [tuple(chain(*self._pairs))]
        self._batch_of = torch.arange(groups) * batches // groups
        self._shift = torch.empty_like(like)
        # [batches, nodes, classes] each: of the runs, of their squares, of products by source.
        shape = (batches, *like.shape)
        self._sums = [like.new_zeros(shape) for _ in range(2 + len(self._pairs))]
        self._done = 0

    @property
    def batches(self) -> int:
        """Number of batches."""
        return len(self._sums[0])

    def add(self, runs: Tensor, rows: slice = WHOLE) -> None:  # [runs, nodes, classes]
        """Take in the next runs, in whole groups.

        Args:
            runs: for all nodes, or for some.
            rows: which; those of the same runs come in order, up to the last.
        """
        shift = self._shift[rows]
        if self._done == 0:
            shift.copy_(runs[0])
        around = (runs - shift).view(-1, self._group, *shift.shape)
        numbers = self._batch_of[self._done : self._done + len(around)].tolist()
        start = 0
        while start < len(numbers):
            batch = numbers[start]
            stop = start + numbers.count(batch)
            self._add(around[start:stop], [sums[batch, rows] for sums in self._sums])
            start = stop
        if rows.stop is None or rows.stop >= len(self._shift):
            self._done += len(around)

    def _add(self, groups: Tensor, sums: list[Tensor]) -> None:  # [groups, runs, nodes, classes]
        sums[0] += groups.sum((0, 1))
        sums[1] += groups.square().sum((0, 1))
        for place, pairs in enumerate(self._pairs, start=2):
            for one, two in pairs:
                sums[place] += (groups[:, one] * groups[:, two]).sum(0)

    def blocks(self, numbers: int) -> Iterator[slice]:
        """Rows whose answers have so many numbers together, block by block."""
        step = max(1, numbers * len(self._shift) // max(self._shift.numel(), 1))
        for start in range(0, len(self._shift), step):
            yield slice(start, min(start + step, len(self._shift)))

    @property
    def finite(self) -> bool:
        """Whether all runs gave finite numbers."""
        return all(bool(batch.isfinite().all()) for batch in self._sums[0])

    def figures(self, rows: slice = WHOLE) -> Figures:
        """What the sums say about some nodes."""
        runs = torch.bincount(self._batch_of).to(self._shift.device) * self._group
        return Figures(
            self._shift[rows],
            [sums[:, rows].double() for sums in self._sums],
            runs.double().view(-1, *[1] * self._shift.dim()),
            self._sources,
            self._terms,
        )

    def place_for(self, figure: int) -> Tensor:  # -> [nodes, classes]
        """Where to write a figure: over a sum that is needed no more, once its rows are read."""
        if self.batches == 1 and figure < len(self._sums):
            return self._sums[figure][0]
        return torch.empty_like(self._shift)

    def forget(self) -> None:
        """Give back the memory of the sums."""
        self._sums = []

    @cached_property
    def _whole(self) -> Figures:
        return self.figures()

    @property
    def mean(self) -> Estimate:
        """The mean."""
        return self._whole.mean

    @property
    def total(self) -> Estimate:
        """The variance."""
        return self._whole.total

    @property
    def shares(self) -> dict[str, Estimate]:
        """The variance due to each source alone, where there are several."""
        return self._whole.shares

    @property
    def interactions(self) -> Estimate:
        """What no source causes alone."""
        return self._whole.interactions
