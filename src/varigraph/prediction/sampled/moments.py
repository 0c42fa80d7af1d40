"""Moments of runs as they come in, and how far these can be trusted."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from varigraph.prediction.question import Source
from varigraph.prediction.sampled.design import Design

#: Runs are summed in so many batches; the spread between those is the standard error, to 13 %.
BATCHES = 32
#: With fewer batches than this their spread means nothing: the standard error is NaN.
FEWEST_BATCHES = 5
#: Numbers that the sums may take; very large graphs have fewer batches.
MOST_SUMS = 2**25


@dataclass(frozen=True, eq=False)
class Estimate:
    """A figure and what it is in each of several independent batches of runs.

    Args:
        value: the figure, ``[nodes, classes]``.
        by_batch: ``[batches, nodes, classes]``, the same but for the correction of bias.
        weights: share of the runs in each batch, ``[batches, 1, 1]``.
    """

    value: Tensor
    by_batch: Tensor
    weights: Tensor

    @cached_property
    def error(self) -> Tensor:  # [nodes, classes]
        """Standard error; NaN with fewer than five batches."""
        count = len(self.by_batch)
        if count < FEWEST_BATCHES:
            return torch.full_like(self.value, float("nan"))
        away = self.by_batch - (self.weights * self.by_batch).sum(0)
        spread = away.mul_(self.weights).square_().sum(0)
        return (spread * count / (count - 1)).sqrt().to(self.value)

    def without_each_batch(self) -> Tensor:  # [batches, nodes, classes]
        """The figure from all batches but one, in turn."""
        rest = (self.weights * self.by_batch).sum(0) - self.weights * self.by_batch
        bias = self.value - (self.weights * self.by_batch).sum(0)
        return rest / (1 - self.weights) + bias


class SampledMoments:
    r"""Unbiased mean, variance and shares of the sources, from groups of runs.

    With :math:`U = \frac1n \sum_i (y_i - \bar y)^2` and
    :math:`c_s = \frac{2}{n} \sum_{(i,j)} (y_i - \bar y)(y_j - \bar y)` over the pairs that share
    source s, each run being in one such pair for each of the k sources,

    .. math::
        E[U] = V - \frac{T}{n}, \quad E[c_s] = V_s - \frac{T}{n}, \quad T = V + \sum_s V_s,

    so that :math:`\hat T = (U + \sum_s c_s) / (1 - \frac{k + 1}{n})` removes the bias of all. Sums
    are taken around the answer at the means in float64: no digits are lost for large answers.

    Args:
        shift: the answer with all sources at their means, ``[nodes, classes]``.
        design: which runs share what.
    """

    def __init__(self, shift: Tensor, design: Design) -> None:
        self._shift, self._pairs, self._group = shift, design.pairs, design.group
        groups, sums = design.runs // design.group, 2 + len(design.pairs)
        fitting = max(FEWEST_BATCHES, MOST_SUMS // (sums * max(shift.numel(), 1)))
        batches = min(BATCHES, fitting, groups) if groups >= FEWEST_BATCHES else 1
        self._batch_of = torch.arange(groups) * batches // groups
        # [sums, batches, nodes, classes]: of the runs, of their squares, of products by source.
        self._sums = shift.new_zeros((sums, batches, *shift.shape), dtype=torch.float64)
        self._done = 0

    def add(self, runs: Tensor) -> None:  # [whole groups of runs, nodes, classes]
        """Take in the next runs."""
        around = (runs - self._shift).double().view(-1, self._group, *self._shift.shape)
        numbers = self._batch_of[self._done : self._done + len(around)].tolist()
        self._done += len(around)
        start = 0
        while start < len(numbers):
            batch = numbers[start]
            stop = start + numbers.count(batch)
            self._add(around[start:stop], self._sums[:, batch])
            start = stop

    def _add(self, groups: Tensor, sums: Tensor) -> None:  # [groups, runs, ...], [sums, ...]
        sums[0] += groups.sum((0, 1))
        sums[1] += groups.square().sum((0, 1))
        for place, pairs in enumerate(self._pairs.values(), start=2):
            for one, two in pairs:
                sums[place] += (groups[:, one] * groups[:, two]).sum(0)

    @cached_property
    def mean(self) -> Estimate:
        """The mean."""
        return self._estimate(self._shift + self._middle, self._first)

    @cached_property
    def total(self) -> Estimate:
        """The variance."""
        return self._estimate(self._figures[0] + self._bias, self._by_batch(0))

    @cached_property
    def shares(self) -> dict[Source, Estimate]:
        """The variance due to each source alone, where there are several."""
        return {
            source: self._estimate(self._figures[k] + self._bias, self._by_batch(k))
            for k, source in enumerate(self._pairs, start=1)
        }

    @cached_property
    def interactions(self) -> Estimate:
        """What no source causes alone."""
        value, by_batch = self.total.value, self.total.by_batch
        for share in self.shares.values():
            value, by_batch = value - share.value, by_batch - share.by_batch
        return self._estimate(value, by_batch)

    @cached_property
    def _counts(self) -> Tensor:  # [batches, 1, 1]
        runs = torch.bincount(self._batch_of).to(self._sums) * self._group
        return runs.view(-1, *[1] * self._shift.dim())

    @cached_property
    def _middle(self) -> Tensor:
        return self._sums[0].sum(0) / self._counts.sum()

    @cached_property
    def _first(self) -> Tensor:  # [batches, nodes, classes]
        return self._sums[0] / self._counts

    @cached_property
    def _figures(self) -> Tensor:  # [1 + sources, nodes, classes]
        """U and the c of each source."""
        figures = self._sums[1:].sum(1) / self._counts.sum()
        figures[1:] *= 2
        return figures - self._middle**2

    @cached_property
    def _bias(self) -> Tensor:
        """What all figures lack in expectation: T / n."""
        return self._figures.sum(0) / (self._counts.sum() - len(self._figures))

    def _by_batch(self, figure: int) -> Tensor:  # [batches, nodes, classes]
        """A figure in each batch, around the mean of all."""
        counts = self._counts if figure == 0 else self._counts / 2
        products = self._sums[1 + figure] / counts
        return products.sub_(2 * self._middle * self._first).add_(self._middle**2)

    def _estimate(self, value: Tensor, by_batch: Tensor) -> Estimate:
        weights = self._counts / self._counts.sum()
        return Estimate(value.to(self._shift), by_batch, weights)
