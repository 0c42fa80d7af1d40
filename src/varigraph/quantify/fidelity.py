"""How far a variance is from the truth, when the truth itself was sampled."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from scipy import stats
from torch import Tensor

from varigraph.prediction.sampled.estimates import Estimate

#: Quantile of the standard normal that has 5 % above it.
NINETY = 1.6448536269514722
#: Relative standard error of the truth above which nothing is said about a method.
COARSE = 0.1
#: Variances whose root is this small next to the answer, in units of its rounding, count as zero.
ROUNDING = 16


@dataclass(frozen=True)
class Ratio:
    r"""Variance of a method over that of brute force, over nodes and classes.

    The logarithm of an observed ratio is that of the true one plus the sampling error of the
    truth. Half-widths add in quadrature, so that

    .. math::
        h = \sqrt{\max(h_\text{seen}^2 - h_\text{error}^2,\ 0)}

    is the half-width, on either side of the median, of the range that is left when the error is
    taken out. The error is taken to be that of a variance of Gaussian draws, :math:`\ln(\chi^2_n /
    n)`, as many of them, :math:`n = 2 / \tau^2`, as make the measured relative standard error
    :math:`\tau`.

    Args:
        median: of the ratios.
        error: its relative standard error, by leaving out each batch of draws in turn.
        low: 5 % of the ratios are lower, sampling error taken out.
        high: 5 % of the ratios are higher, sampling error taken out.
        rank_correlation: Spearman's, between the variances of the two.
        resolution: :math:`\tau`, relative standard error of one variance of the truth.
        compared: number of variances compared.
        left_out: number of variances left out, because the truth is zero.
    """

    median: float
    error: float
    low: float
    high: float
    rank_correlation: float
    resolution: float
    compared: int
    left_out: int

    @property
    def too_coarse(self) -> bool:
        """Whether the truth was sampled too little to say anything."""
        return not self.resolution <= COARSE

    @property
    def agrees(self) -> bool:
        """Whether the median is 1 as far as the sample can tell."""
        return abs(math.log(self.median)) <= 2 * self.error if self.median > 0 else False

    @classmethod
    def of(cls, var: Tensor, truth: Estimate, kept: Tensor) -> Ratio:  # [nodes, classes] each
        """Compare variances with sampled ones.

        Args:
            var: by the method.
            truth: by brute force.
            kept: which of them to compare.
        """
        method, true = var[kept].double(), truth.value[kept].double()
        if len(method) == 0:
            nothing = (math.nan,) * 6
            return cls(*nothing, 0, kept.numel())
        seen = _log_ratio(method, true)
        resolution = _resolution(truth, kept)
        below, above = _widths_of_error(resolution)
        low, median, high = _quantiles(seen)
        others = [
            float(_log_ratio(method, batch[kept]).median()) for batch in truth.without_each_batch()
        ]
        return cls(
            median=math.exp(median),
            error=_jackknife(others),
            low=math.exp(median - _without(median - low, below)),
            high=math.exp(median + _without(high - median, above)),
            rank_correlation=_rank_correlation(method, true),
            resolution=resolution,
            compared=len(method),
            left_out=int((~kept).sum()),
        )


def not_zero(var: Tensor, mean: Tensor) -> Tensor:  # [nodes, classes] -> [nodes, classes]
    """Which variances are more than rounding.

    Args:
        var: of answers.
        mean: of the same answers.
    """
    rounding = ROUNDING * torch.finfo(mean.dtype).eps * mean.abs().max()
    return var > rounding.square()


def _log_ratio(method: Tensor, truth: Tensor) -> Tensor:
    tiny = torch.finfo(torch.float64).tiny
    return (method.clamp_min(tiny) / truth.clamp_min(tiny)).log()


def _quantiles(values: Tensor) -> tuple[float, float, float]:
    # numpy's, because torch.quantile refuses more than 16 million numbers.
    low, median, high = stats.mstats.mquantiles(values.cpu().numpy(), [0.05, 0.5, 0.95])
    return float(low), float(median), float(high)


def _resolution(truth: Estimate, kept: Tensor) -> float:
    """Relative standard error of a typical variance; a median, as a few of them are far larger."""
    relative = truth.error[kept].double() / truth.value[kept].double()
    median = float(relative.square().median())
    # Of a squared error from n batches the median is less than the mean, as that of a chi-square.
    return math.sqrt(median / (1 - 2 / (9 * max(len(truth.by_batch) - 1, 1))) ** 3)


def _widths_of_error(resolution: float) -> tuple[float, float]:
    """From the median of the ratio's error to its 5 % and 95 % quantiles, on the log scale."""
    if not 0 < resolution < 1:
        return 0.0, 0.0
    low, median, high = (math.log(stats.chi2.ppf(q, 2 / resolution**2)) for q in (0.05, 0.5, 0.95))
    return high - median, median - low  # the truth is the divisor


def _without(half_width: float, of_error: float) -> float:
    return math.sqrt(max(half_width**2 - of_error**2, 0.0))


def _jackknife(left_out: list[float]) -> float:
    count = len(left_out)
    if count < 2:
        return math.nan
    middle = sum(left_out) / count
    return math.sqrt((count - 1) / count * sum((value - middle) ** 2 for value in left_out))


def _rank_correlation(a: Tensor, b: Tensor) -> float:
    if len(a) < 2 or bool((a == a[0]).all()) or bool((b == b[0]).all()):
        return math.nan
    return float(stats.spearmanr(a.cpu().numpy(), b.cpu().numpy()).statistic)
