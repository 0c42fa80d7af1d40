"""Functions of single numbers that are put together of pieces: clipped, shrunk, cut off."""

from __future__ import annotations

import math
from typing import Any

from torch import Tensor, nn
from torch.nn import functional as F

from varigraph.errors import MissingRuleError
from varigraph.moments.activations import (
    BY_INTEGRATION,
    INTEGRATED,
    elementwise,
    integrated,
    two_slopes,
)
from varigraph.moments.gaussian import Gaussian
from varigraph.moments.registry import implements


@implements("clamp", "clip", exactness=INTEGRATED, note=BY_INTEGRATION)
def clamp(x: Gaussian, min: Any = None, max: Any = None) -> Gaussian:
    r"""Moments of :math:`\min(\max(x, l), h)`; one of the two bounds may be missing."""
    low, high = _bound(min, -math.inf), _bound(max, math.inf)
    return _clipped(x, low if low < high else high, high)


@implements("clamp_min", exactness="exact", note="for a Gaussian input")
def clamp_min(x: Gaussian, min: Any) -> Gaussian:
    r"""Moments of :math:`\max(x, l)`, by :func:`clamp`."""
    return clamp(x, min)


@implements("clamp_max", exactness="exact", note="for a Gaussian input")
def clamp_max(x: Gaussian, max: Any) -> Gaussian:
    r"""Moments of :math:`\min(x, h)`, by :func:`clamp`."""
    return clamp(x, None, max)


@elementwise
def _clipped(x: Gaussian, low: float, high: float) -> Gaussian:
    """With one bound it is a ReLU that was moved."""
    if math.isinf(high) and math.isfinite(low):
        above = two_slopes(Gaussian(x.mean - low, x.var), 0.0)
        return Gaussian(low + above.mean, above.var)
    if math.isinf(low) and math.isfinite(high):
        below = two_slopes(Gaussian(high - x.mean, x.var), 0.0)
        return Gaussian(high - below.mean, below.var)
    return integrated(lambda v: v.clamp(low, high), x, kinks=(low, high))


def _bound(bound: Any, otherwise: float) -> float:
    if bound is None:
        return otherwise
    if isinstance(bound, Gaussian) or (isinstance(bound, Tensor) and bound.numel() != 1):
        raise MissingRuleError(
            "clamp() has a rule for bounds that are numbers, but was given tensors",
            "clip with numbers, or write a rule for the layer that calls it: @implements(...)",
        )
    return float(bound)


@implements("hardtanh", exactness=INTEGRATED, modules=[nn.Hardtanh], note=BY_INTEGRATION)
def hardtanh(
    x: Gaussian, min_val: float = -1.0, max_val: float = 1.0, inplace: bool = False
) -> Gaussian:
    r"""Moments of :math:`x` kept between -1 and 1."""
    return _clipped(x, min_val, max_val)


@implements("relu6", exactness=INTEGRATED, modules=[nn.ReLU6], note=BY_INTEGRATION)
def relu6(x: Gaussian, inplace: bool = False) -> Gaussian:
    r"""Moments of :math:`x` kept between 0 and 6."""
    return _clipped(x, 0.0, 6.0)


@implements("hardsigmoid", exactness=INTEGRATED, modules=[nn.Hardsigmoid], note=BY_INTEGRATION)
@elementwise
def hardsigmoid(x: Gaussian, inplace: bool = False) -> Gaussian:
    r"""Moments of :math:`x / 6 + 1 / 2` kept between 0 and 1."""
    return integrated(F.hardsigmoid, x, kinks=(-3.0, 3.0))


@implements("hardswish", exactness=INTEGRATED, modules=[nn.Hardswish], note=BY_INTEGRATION)
@elementwise
def hardswish(x: Gaussian, inplace: bool = False) -> Gaussian:
    r"""Moments of :math:`x` times its hard sigmoid."""
    return integrated(F.hardswish, x, kinks=(-3.0, 3.0))


@implements("softshrink", exactness=INTEGRATED, modules=[nn.Softshrink], note=BY_INTEGRATION)
@elementwise
def softshrink(x: Gaussian, lambd: float = 0.5) -> Gaussian:
    r"""Moments of :math:`x` drawn towards 0 by :math:`\lambda`."""
    return integrated(lambda v: F.softshrink(v, lambd), x, kinks=(-lambd, lambd))


@implements("hardshrink", exactness=INTEGRATED, modules=[nn.Hardshrink], note=BY_INTEGRATION)
@elementwise
def hardshrink(x: Gaussian, lambd: float = 0.5) -> Gaussian:
    r"""Moments of :math:`x`, or 0 where it lies within :math:`\pm\lambda`."""
    return integrated(lambda v: F.hardshrink(v, lambd), x, kinks=(-lambd, lambd))


@implements("threshold", exactness=INTEGRATED, modules=[nn.Threshold], note=BY_INTEGRATION)
@elementwise
def threshold(x: Gaussian, threshold: float, value: float, inplace: bool = False) -> Gaussian:
    r"""Moments of :math:`x` above a threshold, of a number otherwise."""
    return integrated(lambda v: F.threshold(v, threshold, value), x, kinks=(threshold,))
