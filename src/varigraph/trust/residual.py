"""How far a network is off by itself: the variance to add to that of its inputs."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize
from torch import Tensor

Floats = NDArray[np.float64]


def fitted_residual(error: Tensor, var: Tensor) -> tuple[float, float]:  # [nodes], [nodes]
    r"""The scale a and the residual b of least Gaussian surprise.

    .. math:: \min_{a, b \ge 0} \frac1n \sum_i \log v_i + \frac{e_i^2}{v_i}, \qquad
        v_i = a \sigma_i^2 + b

    It is not convex, so that the best of several starts is taken, each with another share of the
    error left to the inputs.

    Args:
        error: truth minus answer.
        var: variance of the answer.

    Returns:
        a and b.
    """
    square, given = (each.double().cpu().numpy() for each in (error.square(), var))
    size = float(square.mean())
    if size == 0:
        return 0.0, 0.0
    whole = float(given.mean())
    if whole == 0:
        return 0.0, size  # nothing but the residual: its best value is the mean square
    square, relative = square / size, given / whole

    def loss(parts: Floats) -> tuple[float, Floats]:
        v = np.maximum(parts[0] * relative + parts[1], 1e-12)
        slope = (1 - square / v) / v
        return float(np.mean(np.log(v) + square / v)), np.array(
            [np.mean(slope * relative), np.mean(slope)]
        )

    starts = [(share, 1 - share) for share in (0.05, 0.5, 0.95)]
    options = {"jac": True, "method": "L-BFGS-B", "bounds": [(0, None), (1e-9, None)]}
    best = min((minimize(loss, start, **options) for start in starts), key=lambda each: each.fun)
    return float(best.x[0]) * size / whole, float(best.x[1]) * size
