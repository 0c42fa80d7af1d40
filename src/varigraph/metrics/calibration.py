"""How far probabilities are from frequencies, in intervals of probability."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from varigraph.metrics.inputs import Numbers, check_bins, check_classes, check_probabilities
from varigraph.options import switch

#: Intervals of equal width from 0 to 1 that a reliability diagram has.
BINS = 15
#: Standard deviations of the normal distribution that hold 95 % of it.
NINETY_FIVE = 1.959964


def ece(
    mean: Numbers,  # [nodes, classes]
    labels: Numbers,  # [nodes]
    *,
    bins: int = BINS,
    equal_mass: bool = False,
) -> float:
    r"""Expected calibration error of the most probable class.

    .. math:: \sum_b \frac{n_b}{n} \left|a_b - \bar p_b\right|

    with the accuracy :math:`a_b` and the mean confidence :math:`\bar p_b`, the highest probability
    of a node, in each interval of confidence. Classes that are not the most probable one do not
    count. It is biased: perfect probabilities have up to about
    :math:`0.3 \sqrt{b / n}`, because shares of finite numbers scatter.

    Args:
        mean: expected class probabilities.
        labels: true classes, integers from 0.
        bins: number of intervals.
        equal_mass: intervals with equally many nodes, where nodes of equal confidence stay
            together; by default intervals of equal width from 0 to 1.

    Example:
        >>> import torch
        >>> mean = torch.tensor([[0.9, 0.1], [0.9, 0.1], [0.4, 0.6]])
        >>> round(ece(mean, torch.tensor([0, 0, 0])), 4)
        0.2667
    """
    mean, labels = check_classes(mean, labels)
    confidence, best = mean.double().max(dim=1)
    return _error(confidence, best == labels, bins=bins, by_mass=equal_mass)


def binary_ece(
    prob: Numbers,  # [pairs]
    real: Numbers,  # [pairs] bool
    *,
    bins: int = BINS,
    equal_mass: bool = False,
) -> float:
    r"""Expected calibration error of probabilities that something is true.

    .. math:: \sum_b \frac{n_b}{n} \left|\bar y_b - \bar p_b\right|

    with the mean probability :math:`\bar p_b` and the share :math:`\bar y_b` that is true in each
    interval. It is biased as :func:`ece` is.

    Args:
        prob: predicted probabilities.
        real: what is true.
        bins: number of intervals.
        equal_mass: intervals with equally many pairs, as in :func:`ece`.

    Example:
        >>> import torch
        >>> prob, real = torch.tensor([0.9, 0.9, 0.1]), torch.tensor([True, True, False])
        >>> round(binary_ece(prob, real), 4)
        0.1
    """
    prob, real = check_probabilities(prob, real)
    return _error(prob.double(), real, bins=bins, by_mass=equal_mass)


def _error(prob: Tensor, real: Tensor, *, bins: int, by_mass: bool) -> float:
    bins = check_bins(bins)
    by_mass = switch("equal_mass", by_mass, remedy="equal_mass=True, or False")
    place = equal_mass(prob, bins) if by_mass else equal_width(prob, bins)
    return float(sums(real.double() - prob, place, bins).abs().sum() / len(prob))


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


def equal_width(prob: Tensor, bins: int) -> Tensor:  # [pairs] -> [pairs]
    r"""The interval of each probability, :math:`\min(\lfloor p b \rfloor, b - 1)`.

    Each holds its lower end and not its upper one, except the last, which holds 1 as well.

    Example:
        >>> equal_width(torch.tensor([0.0, 0.5, 1.0]), 2).tolist()
        [0, 1, 1]
    """
    return (prob.double() * bins).long().clamp(0, bins - 1)


def equal_mass(values: Tensor, bins: int) -> Tensor:  # [pairs] -> [pairs]
    r"""The interval of each number: equally many in each, equal numbers together.

    .. math:: \left\lfloor \frac{b}{n} \left(n_< + \tfrac12 n_=\right) \right\rfloor

    with :math:`n_<` numbers that are smaller and :math:`n_=` that are equal. Without ties the
    intervals differ by at most one number; with ties some may be empty. The order of the numbers
    never matters.

    Example:
        >>> equal_mass(torch.tensor([0.4, 0.1, 0.2, 0.3]), 2).tolist()
        [1, 0, 0, 1]
    """
    _, place, count = values.unique(return_inverse=True, return_counts=True)
    smaller = count.cumsum(0) - count
    interval: Tensor = (2 * smaller + count) * bins // (2 * len(values))  # [different numbers]
    return interval[place]


def sums(values: Tensor, place: Tensor, size: int) -> Tensor:  # [pairs], [pairs] -> [size]
    """Sum of the numbers in each place, double."""
    return torch.zeros(size, dtype=torch.double, device=values.device).index_add_(
        0, place, values.double()
    )
