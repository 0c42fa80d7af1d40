"""Predicted probabilities against observed shares: what a reliability diagram shows."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from varigraph.metrics.bins import BINS, equal_width, sums
from varigraph.metrics.checks import Numbers, check_bins, check_probabilities

#: Standard deviations of the normal distribution that hold 95 % of it.
NINETY_FIVE = 1.959964


@dataclass(frozen=True, eq=False)
class Reliability:
    """Pairs in intervals of their predicted probability; empty intervals are left out.

    Args:
        predicted: mean probability in each interval, ``[intervals]``.
        observed: share of pairs in it that are real, ``[intervals]``.
        low: lower end of the 95 % interval of that share, ``[intervals]``.
        high: its upper end, ``[intervals]``.
        count: how many pairs there are in it, ``[intervals]``.
        start: where it begins, ``[intervals]``.
        width: how wide each is.
    """

    predicted: Tensor
    observed: Tensor
    low: Tensor
    high: Tensor
    count: Tensor
    start: Tensor
    width: float

    @classmethod
    def of(
        cls, prob: Numbers, real: Numbers, *, bins: int = BINS
    ) -> Reliability:  # [pairs], [pairs]
        r"""Observed shares with Wilson's 95 % interval, which never leaves 0 to 1.

        .. math::
            \frac{\bar y + z^2 / 2n \pm z \sqrt{\bar y (1 - \bar y) / n + z^2 / 4n^2}}{1 + z^2 / n}

        Args:
            prob: predicted probabilities.
            real: which pairs are real, bool.
            bins: number of intervals of equal width from 0 to 1.

        Example:
            >>> prob, real = torch.tensor([0.9, 0.9, 0.1]), torch.tensor([True, False, False])
            >>> found = Reliability.of(prob, real)
            >>> found.observed.tolist(), found.count.tolist()
            ([0.0, 0.5], [1, 2])
        """
        prob, real = check_probabilities(prob, real)
        bins = check_bins(bins)
        interval = equal_width(prob, bins)
        count = torch.bincount(interval, minlength=bins)
        held = count > 0
        n = count[held].double()
        predicted, observed = (sums(values, interval, bins)[held] / n for values in (prob, real))
        square = NINETY_FIVE**2
        centre = (observed + square / (2 * n)) / (1 + square / n)
        spread = observed * (1 - observed) / n + square / (4 * n**2)
        half = NINETY_FIVE * spread.sqrt() / (1 + square / n)
        return cls(
            predicted=predicted,
            observed=observed,
            # Rounding must not put a share of 0 or 1 outside its own interval.
            low=(centre - half).clamp_min(0).minimum(observed),
            high=(centre + half).clamp_max(1).maximum(observed),
            count=count[held],
            start=held.nonzero().flatten() / bins,
            width=1 / bins,
        )
