"""Whether numbers with a large predicted variance have large errors."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from varigraph.metrics.bins import equal_mass, sums
from varigraph.metrics.checks import Numbers, check_bins, check_moments


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
