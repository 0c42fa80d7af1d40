"""How far probabilities are from frequencies."""

from __future__ import annotations

from torch import Tensor

from varigraph.metrics.bins import BINS, equal_mass, equal_width, sums
from varigraph.metrics.checks import Numbers, check_bins, check_classes, check_probabilities
from varigraph.options import switch


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
