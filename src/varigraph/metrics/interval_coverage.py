"""How often error bars hold the truth."""

from __future__ import annotations

import torch

from varigraph.metrics.checks import Numbers, check_moments
from varigraph.options import number


def interval_coverage(mean: Numbers, var: Numbers, truth: Numbers, *, level: float = 0.9) -> float:
    r"""Share of true values within the central interval of a normal distribution.

    .. math::
        \frac1n \sum_i \left[\,|y_i - \bar y_i| \le z \sqrt{v_i}\,\right], \qquad
        z = -\Phi^{-1}\!\left(\tfrac{1 - \text{level}}{2}\right)

    Of honest variances of normal values a share of ``level`` is within; less means that the
    variances are too small.

    Args:
        mean: expected values, of any shape.
        var: their variances, of the same shape; 0 is an interval that holds the mean alone.
        truth: the true values, of the same shape.
        level: share of the distribution that the interval is to hold, between 0 and 1.

    Example:
        >>> mean, var = torch.zeros(4), torch.ones(4)
        >>> interval_coverage(mean, var, torch.tensor([-2.0, -1.0, 0.5, 1.6]), level=0.9)
        0.75
    """
    mean, var, truth = check_moments(mean, var, truth)
    remedy = "choose a share between 0 and 1: level=0.9"
    level = number("level", level, lambda share: 0 < share < 1, remedy=remedy)
    reach = -torch.special.ndtri(var.new_tensor((1 - level) / 2, dtype=torch.double))
    within = (truth.double() - mean.double()).abs() <= reach * var.double().sqrt()
    return float(within.double().mean())
