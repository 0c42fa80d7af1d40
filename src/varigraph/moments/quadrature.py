"""Moments of any scalar function of a Gaussian, by numerical integration."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor

from varigraph.moments.gaussian import Gaussian

POINTS = 48
REACH = 9.0  # standard deviations: the rest is below double precision
LEAST = 1e-5  # standard deviations, beside 1 or the mean


def integrated(function: Callable[[Tensor], Tensor], x: Gaussian, *, kink: float = 0.0) -> Gaussian:
    r"""Moments of :math:`y = f(x)` by Gauss–Legendre on both sides of a kink.

    .. math::
        E[y] = \int f(\mu + \sigma t)\,\varphi(t)\,dt \qquad
        V[y] = \int (f(\mu + \sigma t) - E[y])^2\,\varphi(t)\,dt

    Activations have their kinks and bends near 0. Splitting the range there, with the distance
    from the split growing as a square, crowds the points where they are needed: the relative
    error stays below 1e-6 for standard deviations from 0.01 to 100. All is taken around
    :math:`f(\mu)`, in double precision: nothing cancels. Standard deviations too small for the
    points to differ are widened to :data:`LEAST`, and what that gives is scaled down: it has the
    right slope and bend even for an exact input.
    """
    mean, var = x.mean.double(), x.var.double()
    wide = var.clamp_min(LEAST**2 * (1 + mean.detach().square()))
    std, part = wide.sqrt(), var / wide
    split = ((kink - mean) / std).clamp(-REACH, REACH)
    middle = function(mean)
    shift = _expectation(lambda v: function(v) - middle, mean, std, split)
    spread = _expectation(lambda v: (function(v) - middle - shift).square(), mean, std, split)
    return Gaussian((middle + part * shift).to(x.mean.dtype), (part * spread).to(x.var.dtype))


def _expectation(
    function: Callable[[Tensor], Tensor], mean: Tensor, std: Tensor, split: Tensor
) -> Tensor:
    total, mass = torch.zeros_like(mean), torch.zeros_like(mean)
    for end in (-REACH, REACH):
        length = end - split
        for point, weight in zip(*_legendre(), strict=True):
            t = split + length * point**2
            density = 2 * point * weight * length.abs() * torch.exp(-t.square() / 2)
            total, mass = total + density * function(mean + std * t), mass + density
    return total / mass


def _legendre() -> tuple[list[float], list[float]]:
    points, weights = np.polynomial.legendre.leggauss(POINTS)
    return ((points + 1) / 2).tolist(), (weights / 2).tolist()
