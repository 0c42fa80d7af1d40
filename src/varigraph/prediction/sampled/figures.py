"""Figures from sums over runs, and how far they can be trusted."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

#: With fewer batches than this their spread means nothing: the standard error is NaN.
FEWEST_BATCHES = 5


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


@dataclass(frozen=True, eq=False)
class Figures:
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
        return self._estimate(self._figures[0] + self._bias, self._by_batch(0))

    @cached_property
    def shares(self) -> dict[str, Estimate]:
        """The variance due to each source alone, where there are several."""
        return {
            source: self._estimate(self._figures[k] + self._bias, self._by_batch(k))
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
    def _figures(self) -> list[Tensor]:  # [nodes, classes] each
        """U and the c of each source."""
        plain, *products = (sums.sum(0) / self.counts.sum() for sums in self.sums[1:])
        middle = self._middle**2
        # Products of all sources together have the middle taken out once for each.
        times = (self.terms - 1) // max(len(products), 1)
        return [plain - middle, *(2 * product - times * middle for product in products)]

    @cached_property
    def _bias(self) -> Tensor:
        """What all figures lack in expectation: T / n."""
        return torch.stack(self._figures).sum(0) / (self.counts.sum() - self.terms)

    def _by_batch(self, figure: int) -> Tensor:  # [batches, nodes, classes]
        """A figure in each batch, around the mean of all."""
        counts = self.counts if figure == 0 else self.counts / 2
        products = self.sums[1 + figure] / counts
        return products.sub_(2 * self._middle * self._first).add_(self._middle**2)

    def _estimate(self, value: Tensor, by_batch: Tensor) -> Estimate:
        weights = self.counts / self.counts.sum()
        return Estimate(value.to(self.shift), by_batch, weights)
