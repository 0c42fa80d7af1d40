"""How honest variances are: likelihood of the truth, coverage of intervals, errors by variance."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from varigraph.metrics.calibration import equal_mass, sums
from varigraph.metrics.inputs import Numbers, check_bins, check_classes, check_moments
from varigraph.options import number

#: Smallest variance that counts: a standard deviation of a thousandth.
FLOOR = 1e-6


def gaussian_nll(mean: Numbers, var: Numbers, truth: Numbers, *, floor: float = FLOOR) -> float:
    r"""Negative log likelihood of true values under independent normal distributions, in nats.

    .. math:: \frac1n \sum_i \frac12 \log 2 \pi v_i + \frac{(y_i - \bar y_i)^2}{2 v_i}

    A variance counts as at least ``floor``, as in :func:`torch.nn.functional.gaussian_nll_loss`,
    so that the value is finite for zero variance too. It is still enormous where such a variance
    is wrong: the mean is then decided by the floor.

    Args:
        mean: expected values, of any shape.
        var: their variances, of the same shape.
        truth: the true values, of the same shape.
        floor: smallest variance that counts.

    Example:
        >>> import torch
        >>> mean, var = torch.tensor([1.0, 2.0]), torch.tensor([1.0, 4.0])
        >>> round(gaussian_nll(mean, var, torch.tensor([1.0, 4.0])), 4)
        1.5155
    """
    mean, var, truth = check_moments(mean, var, truth)
    return _nll(mean, var, truth, floor=floor) + math.log(2 * math.pi) / 2


def per_class_nll(mean: Numbers, total: Numbers, labels: Numbers, *, floor: float = FLOOR) -> float:
    r"""Gaussian negative log likelihood of the 0/1 labels, averaged over nodes and classes.

    .. math::
        \frac{1}{nC} \sum_{i,c} \frac12 \log v_{ic} + \frac{(y_{ic} - \bar y_{ic})^2}{2 v_{ic}}

    Equation 14 of the paper: :func:`gaussian_nll` of the labels without its constant
    :math:`\frac12 \log 2\pi`.

    Args:
        mean: expected class probabilities, ``[nodes, classes]``.
        total: their variances, ``[nodes, classes]``.
        labels: true classes, integers from 0, ``[nodes]``.
        floor: smallest variance that counts.

    Example:
        >>> import torch
        >>> mean, total = torch.tensor([[0.75, 0.25]]), torch.tensor([[0.25, 0.25]])
        >>> round(per_class_nll(mean, total, torch.tensor([0])), 4)
        -0.5681
    """
    mean, labels = check_classes(mean, labels)
    truth = F.one_hot(labels.long(), mean.size(1))
    mean, total, truth = check_moments(mean, total, truth, variances="total")
    return _nll(mean, total, truth, floor=floor)


def _nll(mean: Tensor, var: Tensor, truth: Tensor, *, floor: float) -> float:
    remedy = f"choose a positive variance: floor={FLOOR}"
    floor = number("floor", floor, lambda least: least > 0, remedy=remedy)
    var = var.double().clamp_min(floor)
    return float((0.5 * var.log() + (truth.double() - mean.double()) ** 2 / (2 * var)).mean())


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


@dataclass(frozen=True, eq=False)
class VarianceCalibration:
    """Predicted spread next to observed errors, in groups of rising variance; none is empty.

    Args:
        predicted: root of the mean variance in each group, ``[groups]``.
        observed: root of the mean squared error in it, ``[groups]``.
        count: how many numbers there are in it, ``[groups]``.
        ence: expected normalised calibration error; 0 is perfect.
    """

    predicted: Tensor
    observed: Tensor
    count: Tensor
    ence: float


def variance_calibration(
    mean: Numbers, var: Numbers, truth: Numbers, *, bins: int = 10
) -> VarianceCalibration:
    r"""Predicted standard deviations :math:`\sigma_b` and errors :math:`e_b` by group.

    .. math::
        \sigma_b = \sqrt{\tfrac{1}{n_b} \textstyle\sum_{i \in b} v_i}, \quad
        e_b = \sqrt{\tfrac{1}{n_b} \textstyle\sum_{i \in b} (y_i - \bar y_i)^2}, \quad
        \text{ENCE} = \frac1B \sum_b \frac{|\sigma_b - e_b|}{\sigma_b}

    The groups have equally many numbers, and equal variances stay together (`Levi et al. 2022
    <https://arxiv.org/abs/1905.11659>`_). ENCE is infinite where a variance of 0 is wrong.

    Args:
        mean: expected values, of any shape.
        var: their variances, of the same shape.
        truth: the true values, of the same shape.
        bins: number of groups, fewer where many variances are equal.

    Example:
        >>> mean, var = torch.zeros(4), torch.tensor([1.0, 1.0, 4.0, 4.0])
        >>> found = variance_calibration(mean, var, torch.tensor([1.0, -1.0, 1.0, -1.0]), bins=2)
        >>> found.predicted.tolist(), found.observed.tolist(), found.ence
        ([1.0, 2.0], [1.0, 1.0], 0.25)
    """
    mean, var, truth = check_moments(mean, var, truth)
    bins = check_bins(bins)
    var = var.double().flatten()
    square = (truth.double() - mean.double()).square().flatten()
    place = equal_mass(var, bins)
    count = torch.bincount(place, minlength=bins)
    held = count > 0
    predicted, observed = (
        (sums(values, place, bins)[held] / count[held]).sqrt() for values in (var, square)
    )
    gap = (predicted - observed).abs()
    relative = torch.where(gap > 0, gap / predicted, 0.0)  # without error 0 / 0 is none
    return VarianceCalibration(predicted, observed, count[held], float(relative.mean()))
