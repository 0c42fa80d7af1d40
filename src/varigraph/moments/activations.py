"""Activations and other functions of single numbers: moments in closed form or by quadrature."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from functools import partial, wraps
from itertools import pairwise
from typing import Any, TypeVar, cast

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from varigraph.errors import ModelError
from varigraph.kernels import fused
from varigraph.moments.differentiated import Derivatives, derivatives
from varigraph.moments.gaussian import Gaussian, by_node
from varigraph.moments.propagation import current, recorded
from varigraph.moments.registry import Exactness, by_number, implements
from varigraph.moments.softmax import remember_logit
from varigraph.moments.tape import Bend, Scale

POINTS = 48
REACH = 9.0  # standard deviations: the rest is below double precision
FAR = 8.0  # standard deviations from a kink, beyond which it is not felt
LEAST = 1e-5  # standard deviations, beside 1 or the mean


def integrated(
    function: Callable[[Tensor], Tensor], x: Gaussian, *, kinks: tuple[float, ...] = (0.0,)
) -> Gaussian:
    r"""Moments of :math:`y = f(x)` by Gauss–Legendre between kinks, which ascend.

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
    splits = [((kink - mean) / std).clamp(-REACH, REACH) for kink in kinks]
    middle = function(mean)
    shift = _expectation(lambda v: function(v) - middle, mean, std, splits)
    spread = _expectation(lambda v: (function(v) - middle - shift).square(), mean, std, splits)
    return Gaussian((middle + part * shift).to(x.mean.dtype), (part * spread).to(x.var.dtype))


def _expectation(
    function: Callable[[Tensor], Tensor], mean: Tensor, std: Tensor, splits: list[Tensor]
) -> Tensor:
    total, mass = torch.zeros_like(mean), torch.zeros_like(mean)
    for start, end, power in _parts(splits):
        length = end - start
        for point, weight in zip(*_legendre(), strict=True):
            t = start + length * point**power
            crowding = power * point ** (power - 1) * weight
            density = crowding * length.abs() * torch.exp(-t.square() / 2)
            total, mass = total + density * function(mean + std * t), mass + density
    return total / mass


def _parts(splits: list[Tensor]) -> Iterator[tuple[Tensor, Tensor | float, int]]:
    """Where each part of the range starts and ends, and the power by which points crowd there."""
    yield splits[0], -REACH, 2
    yield splits[-1], REACH, 2
    yield from ((here, there, 1) for here, there in pairwise(splits))


def _legendre() -> tuple[list[float], list[float]]:
    points, weights = np.polynomial.legendre.leggauss(POINTS)
    return ((points + 1) / 2).tolist(), (weights / 2).tolist()


Activation = TypeVar("Activation", bound=Callable[..., Gaussian])


def elementwise(
    rule: Activation, *, by_kernel: Callable[[Gaussian], Derivatives] | None = None
) -> Activation:
    r"""A rule for a function of each number by itself, which records its averaged slope and bend.

    .. math::
        g = E[f'(x)] = \frac{\partial}{\partial \mu} E[f(x)] \qquad
        c = E[f''(x)] = 2 \frac{\partial}{\partial \sigma^2} E[f(x)]

    With them the rule serves every closed form; without, only ``"diagonal"``. Both come from the
    mean that the rule returns, which must therefore be differentiable by torch.

    Args:
        rule: takes a :class:`Gaussian` and returns one, number by number.
        by_kernel: the same with its derivatives in one trip through a GPU's memory, if it is known.
    """

    @wraps(rule)
    def taped(x: Gaussian, *args: Any, **kwargs: Any) -> Gaussian:
        tape = current().tape
        if tape is None:
            return rule(x, *args, **kwargs)
        if by_kernel is not None and fused(x.mean, x.var):
            out, slope, half = by_kernel(x)
        else:
            out, slope, half = derivatives(lambda x: rule(x, *args, **kwargs), x)
        tape.bends.append(Bend(out, x, 2 * half))
        return recorded(out, (x, Scale(slope)))

    return by_number(by_node(cast(Activation, taped)))


INTEGRATED: Exactness = "exact"
BY_INTEGRATION = "for a Gaussian input, by numerical integration"


def _rectified(x: Gaussian) -> Derivatives:
    from varigraph.kernels.rectifier import rectified_with_slopes  # noqa: PLC0415 - needs Triton

    mean, var, slope, half = rectified_with_slopes(x.mean, x.var)
    return Gaussian(mean, var), slope, half


@implements("relu", exactness="exact", modules=[nn.ReLU], note="for a Gaussian input")
@partial(elementwise, by_kernel=_rectified)
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
@elementwise
def leaky_relu(x: Gaussian, negative_slope: float = 0.01, inplace: bool = False) -> Gaussian:
    r"""Moments of :math:`s x + (1 - s) \max(x, 0)`; symbols as in :func:`relu`.

    .. math::
        E[y] = s \mu + (1 - s) E[r] \qquad
        V[y] = s^2 \sigma^2 + 2 s (1 - s) \sigma^2 \Phi + (1 - s)^2 V[r]
    """
    return two_slopes(x, negative_slope)


@implements("prelu", exactness="exact", modules=[nn.PReLU], note="for a Gaussian input")
@elementwise
def prelu(x: Gaussian, weight: Tensor) -> Gaussian:
    """Moments of a leaky ReLU whose slope was learnt, by :func:`leaky_relu`."""
    return two_slopes(x, weight)


def normal_cdf(x: Tensor) -> Tensor:
    r""":math:`\Phi(x)`, with all digits in the lower tail, where torch.special.ndtr has none."""
    tail: Tensor = torch.special.erfc(x * -math.sqrt(0.5))
    return tail / 2


def two_slopes(x: Gaussian, slope: float | Tensor) -> Gaussian:
    r"""Moments of :math:`x` above 0 and :math:`s x` below; formulas in :func:`leaky_relu`."""
    if not isinstance(slope, Tensor) and slope == 0 and fused(x.mean, x.var):
        from varigraph.kernels.rectifier import rectified  # noqa: PLC0415 - needs Triton

        return Gaussian(*rectified(x.mean, x.var))
    std = x.var.clamp_min(torch.finfo(x.var.dtype).tiny).sqrt()
    a = (x.mean / std).clamp(-30, 30)  # beyond 30 both tails are exact; a**2 must not overflow
    upper, lower = normal_cdf(a), normal_cdf(-a)
    density = torch.exp(-a.square() / 2) / math.sqrt(2 * math.pi)
    shrink = upper + a * (a * upper * lower + density * (lower - upper)) - density.square()
    mean = x.mean * upper + std * density
    shrink = shrink.clamp_min(0)
    if isinstance(slope, Tensor) or slope != 0:
        mean = slope * x.mean + (1 - slope) * mean
        shrink = slope**2 + 2 * slope * (1 - slope) * upper + (1 - slope) ** 2 * shrink
    return Gaussian(mean, x.var * shrink)


@implements("elu", exactness="exact", modules=[nn.ELU], note="for a Gaussian input")
@elementwise
def elu(x: Gaussian, alpha: float = 1.0, inplace: bool = False) -> Gaussian:
    r"""Moments of :math:`x` above 0, :math:`\alpha (e^x - 1)` below; symbols as in :func:`relu`.

    For any c, with :math:`I_k = E[e^{kx}; x < 0] = e^{k \mu + k^2 \sigma^2/2} \Phi(-a - k \sigma)`:

    .. math::
        E[y + c] = (\mu + c) \Phi + \sigma \varphi + \alpha I_1 + (c - \alpha) I_0 \\
        E[(y + c)^2] = (\mu^2 + \sigma^2 + c^2) \Phi + \mu \sigma \varphi
            + 2 c (\mu \Phi + \sigma \varphi)
            + \alpha^2 I_2 + 2 \alpha (c - \alpha) I_1 + (c - \alpha)^2 I_0

    Where nearly all lies below 0, :math:`c = \alpha` keeps both small, so that nothing cancels.
    Where the tilted densities of :math:`I_k` lie there too, or all lies above, one side is all.
    """
    mean, var = x.mean.double(), x.var.double()
    var = var.clamp_min(LEAST**2 * (1 + mean.detach().square()))
    std = var.sqrt()
    ratio = mean / std
    density = torch.exp(-ratio.square() / 2)
    above, pulled = normal_cdf(ratio), std * density / math.sqrt(2 * math.pi)
    none, one, two = (_below(k, mean, std, ratio, density) for k in (0, 1, 2))
    lift = alpha * (ratio < -FAR).to(mean)
    rest, positive = lift - alpha, mean * above + pulled
    first = positive + lift * above + alpha * one + rest * none
    second = (mean.square() + var + lift.square()) * above + mean * pulled + 2 * lift * positive
    second = second + alpha * (alpha * two + 2 * rest * one) + rest.square() * none
    spread = (second - first.square()).clamp_min(0)
    spread = torch.where(ratio + 2 * std < -FAR, alpha**2 * _exponential_spread(mean, std), spread)
    spread = torch.where(ratio > FAR, var, spread)
    part, middle = x.var.double() / var, F.elu(mean, alpha)
    shifted = middle + part * (first - lift - middle)
    return Gaussian(shifted.to(x.mean.dtype), (part * spread).to(x.var.dtype))


def _exponential_spread(mean: Tensor, std: Tensor) -> Tensor:
    r""":math:`V[e^x]` where :math:`\mu + 2 \sigma^2 < 0`, and some finite number elsewhere."""
    var = torch.where(mean / std + 2 * std < 0, std.square(), 0.0)
    return torch.exp(2 * mean.clamp_max(0) + var) * torch.expm1(var)


def _below(k: int, mean: Tensor, std: Tensor, ratio: Tensor, density: Tensor) -> Tensor:
    r""":math:`E[e^{kx}; x < 0]`, without a product of the large and the small."""
    tail = ratio + k * std
    right = density / 2 * torch.special.erfcx(tail.clamp_min(0) / math.sqrt(2))
    power = torch.where(tail > 0, 0.0, k * mean + (k * std).square() / 2)
    return torch.where(tail > 0, right, torch.exp(power) * normal_cdf(-tail))


@implements("celu", exactness=INTEGRATED, modules=[nn.CELU], note=BY_INTEGRATION)
@elementwise
def celu(x: Gaussian, alpha: float = 1.0, inplace: bool = False) -> Gaussian:
    r"""Moments of :math:`x` above 0, :math:`\alpha (e^{x / \alpha} - 1)` below."""
    return integrated(lambda v: F.celu(v, alpha), x)


@implements("selu", exactness=INTEGRATED, modules=[nn.SELU], note=BY_INTEGRATION)
@elementwise
def selu(x: Gaussian, inplace: bool = False) -> Gaussian:
    """Moments of the scaled ELU."""
    return integrated(F.selu, x)


@implements("gelu", exactness=INTEGRATED, modules=[nn.GELU], note=BY_INTEGRATION)
@elementwise
def gelu(x: Gaussian, approximate: str = "none") -> Gaussian:
    r"""Moments of :math:`x \Phi(x)`."""
    return integrated(lambda v: F.gelu(v, approximate=approximate), x)


@implements("silu", exactness=INTEGRATED, modules=[nn.SiLU], note=BY_INTEGRATION)
@elementwise
def silu(x: Gaussian, inplace: bool = False) -> Gaussian:
    r"""Moments of :math:`x / (1 + e^{-x})`."""
    return integrated(F.silu, x)


@implements("tanh", exactness=INTEGRATED, modules=[nn.Tanh], note=BY_INTEGRATION)
@elementwise
def tanh(x: Gaussian) -> Gaussian:
    r"""Moments of :math:`\tanh x`."""
    return integrated(torch.tanh, x)


@implements("sigmoid", exactness=INTEGRATED, modules=[nn.Sigmoid], note=BY_INTEGRATION)
@by_number
def sigmoid(x: Gaussian) -> Gaussian:
    r"""Moments of :math:`1 / (1 + e^{-x})`."""
    return remember_logit(_sigmoid(x), before=x)


@elementwise
def _sigmoid(x: Gaussian) -> Gaussian:
    return integrated(torch.sigmoid, x)


@implements("softplus", exactness=INTEGRATED, modules=[nn.Softplus], note=BY_INTEGRATION)
@elementwise
def softplus(x: Gaussian, beta: float = 1.0, threshold: float = 20.0) -> Gaussian:
    r"""Moments of :math:`\log(1 + e^{\beta x}) / \beta`."""
    return integrated(lambda v: F.softplus(v, beta, threshold), x)


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
@elementwise
def absolute(x: Gaussian) -> Gaussian:
    r"""Moments of :math:`|x|`: a leaky ReLU whose lower slope is -1."""
    return two_slopes(x, -1.0)


@implements("mish", exactness=INTEGRATED, modules=[nn.Mish], note=BY_INTEGRATION)
@elementwise
def mish(x: Gaussian, inplace: bool = False) -> Gaussian:
    r"""Moments of :math:`x \tanh \log(1 + e^x)`."""
    return integrated(F.mish, x)


@implements("logsigmoid", exactness=INTEGRATED, modules=[nn.LogSigmoid], note=BY_INTEGRATION)
@elementwise
def logsigmoid(x: Gaussian) -> Gaussian:
    r"""Moments of :math:`-\log(1 + e^{-x})`."""
    return integrated(F.logsigmoid, x)


@implements("softsign", exactness=INTEGRATED, modules=[nn.Softsign], note=BY_INTEGRATION)
@elementwise
def softsign(x: Gaussian) -> Gaussian:
    r"""Moments of :math:`x / (1 + |x|)`."""
    return integrated(F.softsign, x)


@implements("tanhshrink", exactness=INTEGRATED, modules=[nn.Tanhshrink], note=BY_INTEGRATION)
@elementwise
def tanhshrink(x: Gaussian) -> Gaussian:
    r"""Moments of :math:`x - \tanh x`."""
    return integrated(F.tanhshrink, x)


@implements("exp", exactness="exact", note="for a Gaussian input")
@elementwise
def exp(x: Gaussian) -> Gaussian:
    r"""Moments of :math:`e^x`.

    .. math::
        E[y] = e^{\mu + \sigma^2 / 2} \qquad V[y] = E[y]^2 (e^{\sigma^2} - 1)
    """
    mean = torch.exp(x.mean + x.var / 2)
    return Gaussian(mean, mean * (mean * torch.expm1(x.var)))


@implements("sin", exactness="exact", note="for a Gaussian input")
@elementwise
def sin(x: Gaussian) -> Gaussian:
    r"""Moments of :math:`\sin x`, by :func:`cos` a quarter of a turn away."""
    return _wave(x, x.mean.sin(), x.mean.cos())


@implements("cos", exactness="exact", note="for a Gaussian input")
@elementwise
def cos(x: Gaussian) -> Gaussian:
    r"""Moments of :math:`\cos x`, with :math:`s = 1 - e^{-\sigma^2}`.

    .. math::
        E[y] = e^{-\sigma^2 / 2} \cos\mu \qquad V[y] = s (s + 2 (1 - s) \sin^2\mu) / 2
    """
    return _wave(x, x.mean.cos(), x.mean.sin())


def _wave(x: Gaussian, here: Tensor, ahead: Tensor) -> Gaussian:
    share = -torch.expm1(-x.var)  # 1 - exp(-v) without losing its digits
    var = share * (share + 2 * (1 - share) * ahead.square()) / 2
    return Gaussian(torch.exp(-x.var / 2) * here, var)
