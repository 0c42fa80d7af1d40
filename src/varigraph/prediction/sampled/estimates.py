"""Mean, variance and shares from sums over runs, and how far they can be trusted."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import chain

import torch
from torch import Tensor

from varigraph.prediction.sampled.draws import Design

#: With fewer batches than this their spread means nothing: the standard error is NaN.
FEWEST_BATCHES = 5


@dataclass(frozen=True, eq=False)
class Estimate:
    """A figure and what it is in each of several independent batches of runs.

    Args:
        value: the figure, ``[nodes, classes]``.
        by_batch: ``[batches, nodes, classes]``, the same but for the correction of bias.
        weights: share of the runs in each batch, ``[batches, 1, 1]``.
        corrected: the bias that was taken out, which is known no better than by its size.
    """

    value: Tensor
    by_batch: Tensor
    weights: Tensor
    corrected: Tensor | float = 0.0

    @cached_property
    def error(self) -> Tensor:  # [nodes, classes]
        """Standard error; NaN with fewer than five batches."""
        count = len(self.by_batch)
        if count < FEWEST_BATCHES:
            return torch.full_like(self.value, float("nan"))
        away = self.by_batch - (self.weights * self.by_batch).sum(0)
        spread = away.mul_(self.weights).square_().sum(0)
        known = (spread * count / (count - 1)).sqrt()
        return known.hypot(torch.as_tensor(self.corrected).to(known)).to(self.value)

    def without_each_batch(self) -> Tensor:  # [batches, nodes, classes]
        """The figure from all batches but one, in turn."""
        rest = (self.weights * self.by_batch).sum(0) - self.weights * self.by_batch
        bias = self.value - (self.weights * self.by_batch).sum(0)
        return rest / (1 - self.weights) + bias


@dataclass(frozen=True, eq=False)
class Estimates:
    r"""Unbiased mean, variance and shares of the sources, from sums over groups of runs.

    With :math:`U = \frac1n \sum_i (y_i - \bar y)^2` and
    :math:`c_s = \frac{2}{n} \sum_{(i,j)} (y_i - \bar y)(y_j - \bar y)` over the pairs that share
    source s, each run being in one such pair for each of the k sources,

    .. math::
        E[U] = V - \frac{T}{n}, \quad E[c_s] = V_s - \frac{T}{n}, \quad T = V + \sum_s V_s,

    so that :math:`\hat T = (U + \sum_s c_s) / (1 - \frac{k + 1}{n})` removes the bias of all.

    Args:
        shift: what the sums are taken around, ``[nodes, classes]``.
        sums: of runs, of their squares, of products by source, ``[batches, nodes, classes]`` each.
        counts: runs in each batch, ``[batches, 1, 1]``.
        sources: that the products belong to.
        terms: k + 1.
    """

    shift: Tensor
    sums: list[Tensor]
    counts: Tensor
    sources: tuple[str, ...]
    terms: int

    @cached_property
    def mean(self) -> Estimate:
        """The mean."""
        return self._estimate(self.shift + self._middle, self._first)

    @cached_property
    def total(self) -> Estimate:
        """The variance."""
        return self._estimate(self._plain[0], self._by_batch(0), self._bias)

    @cached_property
    def shares(self) -> dict[str, Estimate]:
        """The variance due to each source alone, where there are several."""
        return {
            source: self._estimate(self._plain[k], self._by_batch(k), self._bias)
            for k, source in enumerate(self.sources, start=1)
        }

    @cached_property
    def interactions(self) -> Estimate:
        """What no source causes alone."""
        value, by_batch = self.total.value, self.total.by_batch
        for share in self.shares.values():
            value, by_batch = value - share.value, by_batch - share.by_batch
        return self._estimate(value, by_batch)

    @cached_property
    def _middle(self) -> Tensor:
        return self.sums[0].sum(0) / self.counts.sum()

    @cached_property
    def _first(self) -> Tensor:  # [batches, nodes, classes]
        return self.sums[0] / self.counts

    @cached_property
    def _plain(self) -> list[Tensor]:  # [nodes, classes] each
        """U and the c of each source."""
        plain, *products = (sums.sum(0) / self.counts.sum() for sums in self.sums[1:])
        middle = self._middle**2
        # Products of all sources together have the middle taken out once for each.
        times = (self.terms - 1) // max(len(products), 1)
        return [plain - middle, *(2 * product - times * middle for product in products)]

    @cached_property
    def _bias(self) -> Tensor:
        """What all figures lack in expectation: T / n."""
        return torch.stack(self._plain).sum(0) / (self.counts.sum() - self.terms)

    def _by_batch(self, figure: int) -> Tensor:  # [batches, nodes, classes]
        """A figure in each batch, around the mean of all."""
        counts = self.counts if figure == 0 else self.counts / 2
        products = self.sums[1 + figure] / counts
        return products.sub_(2 * self._middle * self._first).add_(self._middle**2)

    def _estimate(self, value: Tensor, by_batch: Tensor, lacking: Tensor | float = 0.0) -> Estimate:
        weights = self.counts / self.counts.sum()
        return Estimate((value + lacking).to(self.shift), by_batch, weights, lacking)


#: Runs are summed in so many batches; the spread between those is the standard error, to 13 %.
BATCHES = 32
#: Batches of one round, where draws may end after any of them.
PER_ROUND = 8
#: Numbers that the sums may take; very large graphs have fewer batches.
MOST_SUMS = 2**25
WHOLE = slice(None)


def batches_of(design: Design, numbers: int) -> int:
    """How many batches the runs are summed in, for answers of so many numbers."""
    groups, sums = design.runs // design.group, 2 + len(design.pairs)
    fitting = max(FEWEST_BATCHES, MOST_SUMS // (sums * max(numbers, 1)))
    if design.rounds:
        return design.rounds * max(1, min(PER_ROUND, fitting // design.rounds))
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
    def device(self) -> torch.device:
        """Where the sums are."""
        return self._shift.device

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

    def state(self) -> dict[str, Tensor]:
        """All that is known so far, by names: what :meth:`restore` takes."""
        return {"shift": self._shift, **{f"sums {k}": sums for k, sums in enumerate(self._sums)}}

    def restore(self, state: Mapping[str, Tensor], runs: int) -> None:
        """Go on where others of the same shape and design have stopped, after so many runs."""
        self._shift = state["shift"]
        self._sums = [state[f"sums {k}"] for k in range(len(self._sums))]
        self._done = runs // self._group

    def blocks(self, numbers: int) -> Iterator[slice]:
        """Rows whose answers have so many numbers together, block by block."""
        step = max(1, numbers * len(self._shift) // max(self._shift.numel(), 1))
        for start in range(0, len(self._shift), step):
            yield slice(start, min(start + step, len(self._shift)))

    def by_round(self, rounds: int, runs: int) -> Tensor:  # -> [rounds, nodes, classes]
        """The variance in each of the rounds that are done.

        Args:
            rounds: how many are done.
            runs: in each.
        """
        batches = int(self._batch_of[: self._done].max()) + 1
        first, second = (
            sums[:batches].unflatten(0, (rounds, -1)).sum(1).double() / runs
            for sums in self._sums[:2]
        )
        found: Tensor = second - first.square()
        return found

    def end(self) -> None:
        """No more runs will come."""
        self._batch_of = self._batch_of[: self._done]
        batches = int(self._batch_of.max()) + 1
        self._sums = [sums[:batches] for sums in self._sums]

    @property
    def finite(self) -> bool:
        """Whether all runs gave finite numbers."""
        return all(bool(batch.isfinite().all()) for batch in self._sums[0])

    def estimates(self, rows: slice = WHOLE) -> Estimates:
        """What the sums say about some nodes."""
        runs = torch.bincount(self._batch_of).to(self._shift.device) * self._group
        return Estimates(
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
    def _whole(self) -> Estimates:
        return self.estimates()

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
