"""Functions of single numbers that are put together of pieces: bent, clipped, shrunk, cut off."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from varigraph.errors import MissingRuleError, ModelError
from varigraph.kernels import fused
from varigraph.moments.activations import (
    BY_INTEGRATION,
    INTEGRATED,
    Derivatives,
    elementwise,
    integrated,
    normal_cdf,
    written_out,
)
from varigraph.moments.gaussian import Gaussian
from varigraph.moments.registry import implements


@implements("relu", exactness="exact", modules=[nn.ReLU], note="for a Gaussian input")
@written_out(lambda x, inplace=False: _derivatives(x, 0.0))
def relu(x: Gaussian, inplace: bool = False) -> Gaussian:
    r"""Moments of :math:`\max(x, 0)`.

    With :math:`a = \mu / \sigma`, :math:`\varphi = \varphi(a)`, :math:`\Phi = \Phi(a)` and
    :math:`\Phi^c = \Phi(-a)`:

    .. math::
        E[y] = \mu \Phi + \sigma \varphi \qquad
        V[y] = \sigma^2 [\Phi + a^2 \Phi \Phi^c + a \varphi (\Phi^c - \Phi) - \varphi^2]

    The bracket is :math:`E[y^2] - E[y]^2` with the large terms cancelled by hand: their
    difference is 0 in float32 once :math:`\mu \gg \sigma`.
    """
    return two_slopes(x, 0.0)


@implements("leaky_relu", exactness="exact", modules=[nn.LeakyReLU], note="for a Gaussian input")
@written_out(lambda x, negative_slope=0.01, inplace=False: _derivatives(x, negative_slope))
def leaky_relu(x: Gaussian, negative_slope: float = 0.01, inplace: bool = False) -> Gaussian:
    r"""Moments of :math:`s x + (1 - s) \max(x, 0)`; symbols as in :func:`relu`.

    .. math::
        E[y] = s \mu + (1 - s) E[r] \qquad
        V[y] = s^2 \sigma^2 + 2 s (1 - s) \sigma^2 \Phi + (1 - s)^2 V[r]
    """
    return two_slopes(x, negative_slope)


@implements("prelu", exactness="exact", modules=[nn.PReLU], note="for a Gaussian input")
@written_out(lambda x, weight: _derivatives(x, slope=weight))
def prelu(x: Gaussian, weight: Tensor) -> Gaussian:
    """Moments of a leaky ReLU whose slope was learnt, by :func:`leaky_relu`."""
    return two_slopes(x, weight)


def two_slopes(x: Gaussian, slope: float | Tensor) -> Gaussian:
    r"""Moments of :math:`x` above 0 and :math:`s x` below; formulas in :func:`leaky_relu`."""
    if _by_kernel(x, slope):
        from varigraph.kernels.rectifier import rectified  # noqa: PLC0415 - needs Triton

        return Gaussian(*rectified(x.mean, x.var))
    return _with_sides(x, slope, *_sides(x))


def _by_kernel(x: Gaussian, slope: float | Tensor) -> bool:
    return not isinstance(slope, Tensor) and slope == 0 and fused(x.mean, x.var)


def _derivatives(x: Gaussian, slope: float | Tensor) -> Derivatives:
    r"""Moments, :math:`g = s + (1 - s) \Phi`, and half of :math:`(1 - s) \varphi / \sigma`."""
    if _by_kernel(x, slope) and not torch.is_grad_enabled():
        from varigraph.kernels.rectifier import rectified_with_slopes  # noqa: PLC0415 - needs Triton

        mean, var, by_mean, by_var = rectified_with_slopes(x.mean, x.var)
        return Gaussian(mean, var), by_mean, by_var
    std, _, upper, density = sides = _sides(x)
    value = _with_sides(x, slope, *sides)
    random = x.var >= torch.finfo(x.var.dtype).tiny
    half = torch.where(random, (1 - slope) * density / (2 * std), 0.0)
    return value, slope + (1 - slope) * upper, half


def _sides(x: Gaussian) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    r""":math:`\sigma`, a, :math:`\Phi` and :math:`\varphi`."""
    std = x.var.clamp_min(torch.finfo(x.var.dtype).tiny).sqrt()
    a = (x.mean / std).clamp(-30, 30)  # beyond 30 both tails are exact; a**2 must not overflow
    return std, a, normal_cdf(a), torch.exp(-a.square() / 2) / math.sqrt(2 * math.pi)


def _with_sides(
    x: Gaussian, slope: float | Tensor, std: Tensor, a: Tensor, upper: Tensor, density: Tensor
) -> Gaussian:
    lower = normal_cdf(-a)
    shrink = upper + a * (a * upper * lower + density * (lower - upper)) - density.square()
    mean = x.mean * upper + std * density
    shrink = shrink.clamp_min(0)
    if isinstance(slope, Tensor) or slope != 0:
        mean = slope * x.mean + (1 - slope) * mean
        shrink = slope**2 + 2 * slope * (1 - slope) * upper + (1 - slope) ** 2 * shrink
    return Gaussian(mean, x.var * shrink)


@implements("rrelu", exactness="exact", modules=[nn.RReLU], note="in evaluation mode")
def rrelu(
    x: Gaussian,
    lower: float = 1 / 8,
    upper: float = 1 / 3,
    training: bool = False,
    inplace: bool = False,
) -> Gaussian:
    r"""Moments of a leaky ReLU with the average :math:`(l + u) / 2` of its random slopes."""
    if training:
        raise ModelError("rrelu() draws its slopes in training mode", "call it with training=False")
    return leaky_relu(x, (lower + upper) / 2)


@implements("abs", "absolute", exactness="exact", note="for a Gaussian input")
@written_out(lambda x: _derivatives(x, -1.0))
def absolute(x: Gaussian) -> Gaussian:
    r"""Moments of :math:`|x|`: a leaky ReLU whose lower slope is -1."""
    return two_slopes(x, -1.0)


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
