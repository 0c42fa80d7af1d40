"""Moments by independent means: nothing here imports a rule or a sampler of this package."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import torch
from scipy import integrate
from torch import Tensor

Function = Callable[[Tensor], Tensor]
REACH = 12.0  # standard deviations


class Moments(NamedTuple):
    """A mean and a variance for every number, and the standard errors of a sampled truth."""

    mean: Tensor
    var: Tensor
    mean_error: Tensor | None = None
    var_error: Tensor | None = None


def quadrature(
    function: Function, mean: Tensor, var: Tensor, *, kink: float | tuple[float, ...] = 0.0
) -> Moments:
    r"""Moments of :math:`f(x)` for independent Gaussians, one adaptive integral per number.

    .. math::
        E[f] = \int f(\mu + \sigma t) \varphi(t)\,dt \qquad
        V[f] = \int (f(\mu + \sigma t) - E[f])^2 \varphi(t)\,dt

    Args:
        function: acts on each number by itself.
        mean: means of the inputs, any shape.
        var: variances of the inputs.
        kink: where the function bends, one place or several.
    """
    kinks = kink if isinstance(kink, tuple) else (kink,)
    pairs = [
        _integrals(function, m, math.sqrt(v), kinks)
        for m, v in zip(
            mean.double().flatten().tolist(), var.double().flatten().tolist(), strict=True
        )
    ]
    means, variances = np.array(pairs).T
    return Moments(
        torch.from_numpy(means).view(mean.shape), torch.from_numpy(variances).view(mean.shape)
    )


def _integrals(
    function: Function, mean: float, std: float, kinks: tuple[float, ...]
) -> tuple[float, float]:
    def value(t: float) -> float:
        return float(function(torch.tensor(mean + std * t, dtype=torch.float64)))

    def expectation(of: Callable[[float], float]) -> float:
        def integrand(t: float) -> float:
            return of(value(t)) * math.exp(-t * t / 2) / math.sqrt(2 * math.pi)

        # Bends as wide as 1 around a kink can be narrow on the scale of the noise.
        places = [kink + step for kink in kinks for step in (-8, -1, 0, 1, 8)]
        bends = {(place - mean) / std for place in places} if std > 0 else set()
        points = [-REACH, *sorted(b for b in bends if -REACH < b < REACH), REACH]
        options = {"epsabs": 0.0, "epsrel": 1e-11, "limit": 200}
        with warnings.catch_warnings():
            # It stops at rounding error, which is what is asked of it.
            warnings.simplefilter("ignore", integrate.IntegrationWarning)
            return float(
                sum(integrate.quad(integrand, a, b, **options)[0] for a, b in pairwise(points))
            )

    if std == 0:
        return value(0.0), 0.0
    average = expectation(lambda y: y)
    return average, expectation(lambda y: (y - average) ** 2)


def jacobian(function: Function, mean: Tensor, var: Tensor) -> Moments:
    r"""Moments of an affine function of independent numbers: :math:`V[y] = (J \circ J) \sigma^2`.

    Args:
        function: affine; its Jacobian is taken by automatic differentiation.
        mean: means of the inputs, any shape.
        var: variances of the inputs.
    """
    point = mean.double()
    matrix: Tensor = torch.autograd.functional.jacobian(function, point)
    matrix = matrix.reshape(-1, point.numel())
    out = function(point)
    return Moments(out.detach(), (matrix.square() @ var.double().flatten()).view(out.shape))


def sampling(
    function: Function, mean: Tensor, var: Tensor, *, samples: int = 20_000, seed: int = 0
) -> Moments:
    r"""Moments by brute force, with standard errors.

    They are :math:`s / \sqrt{S}` for the mean and :math:`\sqrt{(m_4 - s^4) / S}` for the variance,
    with the fourth central moment :math:`m_4`.

    Args:
        function: anything.
        mean: means of the inputs, any shape.
        var: variances of the inputs.
        samples: number S of draws.
        seed: of the draws.
    """
    generator = torch.Generator().manual_seed(seed)
    std = var.double().sqrt()
    draws = torch.stack(
        [
            function(mean.double() + std * torch.randn(mean.shape, generator=generator).double())
            for _ in range(samples)
        ]
    )
    average = draws.mean(0)
    centred = draws - average
    spread, fourth = centred.square().mean(0), centred.pow(4).mean(0)
    return Moments(
        average,
        spread,
        (spread / samples).sqrt(),
        ((fourth - spread.square()).clamp_min(0) / samples).sqrt(),
    )
