"""Activation functions: closed forms where they exist, numerical integration where not."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from varigraph.kernels import fused
from varigraph.moments.elementwise import elementwise
from varigraph.moments.gaussian import Gaussian
from varigraph.moments.quadrature import integrated
from varigraph.moments.registry import Exactness, implements

INTEGRATED: Exactness = "exact"
BY_INTEGRATION = "for a Gaussian input, by numerical integration"


@implements("relu", exactness="exact", modules=[nn.ReLU], note="for a Gaussian input")
@elementwise
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
    return _two_slopes(x, 0.0)


@implements("leaky_relu", exactness="exact", modules=[nn.LeakyReLU], note="for a Gaussian input")
@elementwise
def leaky_relu(x: Gaussian, negative_slope: float = 0.01, inplace: bool = False) -> Gaussian:
    r"""Moments of :math:`s x + (1 - s) \max(x, 0)`; symbols as in :func:`relu`.

    .. math::
        E[y] = s \mu + (1 - s) E[r] \qquad
        V[y] = s^2 \sigma^2 + 2 s (1 - s) \sigma^2 \Phi + (1 - s)^2 V[r]
    """
    return _two_slopes(x, negative_slope)


@implements("prelu", exactness="exact", modules=[nn.PReLU], note="for a Gaussian input")
@elementwise
def prelu(x: Gaussian, weight: Tensor) -> Gaussian:
    """Moments of a leaky ReLU whose slope was learnt, by :func:`leaky_relu`."""
    return _two_slopes(x, weight)


def _two_slopes(x: Gaussian, slope: float | Tensor) -> Gaussian:
    if not isinstance(slope, Tensor) and slope == 0 and fused(x.mean, x.var):
        from varigraph.kernels.rectifier import rectified  # noqa: PLC0415 - needs Triton

        return Gaussian(*rectified(x.mean, x.var))
    std = x.var.clamp_min(torch.finfo(x.var.dtype).tiny).sqrt()
    a = (x.mean / std).clamp(-30, 30)  # beyond 30 both tails are exact; a**2 must not overflow
    upper, lower = torch.special.ndtr(a), torch.special.ndtr(-a)
    density = torch.exp(-a.square() / 2) / math.sqrt(2 * math.pi)
    shrink = upper + a * (a * upper * lower + density * (lower - upper)) - density.square()
    mean = x.mean * upper + std * density
    shrink = shrink.clamp_min(0)
    if isinstance(slope, Tensor) or slope != 0:
        mean = slope * x.mean + (1 - slope) * mean
        shrink = slope**2 + 2 * slope * (1 - slope) * upper + (1 - slope) ** 2 * shrink
    return Gaussian(mean, x.var * shrink)


@implements("elu", exactness=INTEGRATED, modules=[nn.ELU], note=BY_INTEGRATION)
@elementwise
def elu(x: Gaussian, alpha: float = 1.0, inplace: bool = False) -> Gaussian:
    r"""Moments of :math:`x` above 0, :math:`\alpha (e^x - 1)` below."""
    return integrated(lambda v: F.elu(v, alpha), x)


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
@elementwise
def sigmoid(x: Gaussian) -> Gaussian:
    r"""Moments of :math:`1 / (1 + e^{-x})`."""
    return integrated(torch.sigmoid, x)


@implements("softplus", exactness=INTEGRATED, modules=[nn.Softplus], note=BY_INTEGRATION)
@elementwise
def softplus(x: Gaussian, beta: float = 1.0, threshold: float = 20.0) -> Gaussian:
    r"""Moments of :math:`\log(1 + e^{\beta x}) / \beta`."""
    return integrated(lambda v: F.softplus(v, beta, threshold), x)
