"""How likely the truth is under normal distributions."""

from __future__ import annotations

import math

import torch.nn.functional as F
from torch import Tensor

from varigraph.metrics.checks import Numbers, check_classes, check_moments
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
