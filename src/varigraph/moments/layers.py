"""Linear maps, dropout and normalisation."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from varigraph.errors import MissingRuleError, ModelError
from varigraph.moments.affine import Affine
from varigraph.moments.differentiated import Corrected
from varigraph.moments.gaussian import Gaussian, by_node, mapped_variance
from varigraph.moments.neighbours import NeighbourSum
from varigraph.moments.propagation import added, current, recorded
from varigraph.moments.registry import by_number, implements
from varigraph.moments.tape import Dense, Scale
from varigraph.sparse import csr_tensor


@implements(F.linear, exactness="exact for independent inputs", modules=[nn.Linear])
def linear(x: Gaussian, weight: Tensor, bias: Tensor | None = None) -> Gaussian:
    r"""Moments of :math:`W x + b`.

    .. math::
        E[y] = W \mu + b \qquad V[y] = (W \circ W) \sigma^2
    """
    certain(weight, bias, of="linear")
    if isinstance(x, NeighbourSum):
        if x.sums_first(len(weight)):
            return _mapped(x.neighbours.sum(x.x), weight, bias)
        return shifted(x.neighbours.sum(_mapped(x.x, weight)), bias, disposable=True)
    return _mapped(x, weight, bias)


@by_node
def _mapped(x: Gaussian, weight: Tensor, bias: Tensor | None = None) -> Gaussian:
    mean = _mapped_mean(x.mean, weight, bias)
    if isinstance(x, Affine):
        out: Gaussian = x.mapped(weight, mean)
    else:
        out = Gaussian(mean, mapped_variance(x.var, weight.square()))
    return recorded(out, (x, Dense(weight)))


def _mapped_mean(mean: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    if bias is None or not current().overwrite:
        return F.linear(mean, weight, bias)
    return F.linear(mean, weight).add_(bias)  # by itself: quicker where outputs are few


@by_node
def shifted(x: Gaussian, by: Tensor | None, *, disposable: bool = False) -> Gaussian:
    """Moments of :math:`x + b` for a certain b; a disposable x is not looked at any more."""
    if by is None:
        return x
    if isinstance(x, Affine):
        return rescaled(x, x.mean + by, torch.ones_like(by))
    mean = added(x.mean, by, disposable=disposable)
    return recorded(Gaussian(mean, x.var.expand_as(mean)), (x, Scale(torch.ones_like(by))))


def rescaled(x: Gaussian, mean: Tensor, slope: Tensor) -> Gaussian:
    """A value of given mean that responds to x with a slope, number by number."""
    per_feature = slope.dim() < 2 or slope.shape[0] == 1
    if isinstance(x, Affine) and per_feature and mean.shape == x.mean.shape:
        out: Gaussian = x.scaled(slope, mean)
    else:
        out = Gaussian(mean, (x.var * slope.square()).expand_as(mean))
    return recorded(out, (x, Scale(slope)))


@implements("matmul", "mm", torch.sparse.mm, exactness="exact for independent inputs")
def matmul(a: Any, b: Any) -> Gaussian:
    r"""Moments of :math:`x W` or :math:`A x` for a certain matrix on the other side."""
    if isinstance(a, Gaussian):
        certain(b, of="matmul")
        return linear(a, b.t())
    matrix = a.to_dense() if a.layout == torch.sparse_coo else a
    return Gaussian(matrix @ b.mean, _squared(matrix) @ b.var)


def _squared(matrix: Tensor) -> Tensor:
    if matrix.layout != torch.sparse_csr:
        return matrix.square()
    squares = matrix.values().square()
    return csr_tensor(matrix.crow_indices(), matrix.col_indices(), squares, matrix.shape)


def certain(*values: Any, of: str) -> None:
    """Refuse Gaussians where a rule expects numbers that are known exactly."""
    if any(isinstance(value, Gaussian) for value in values):
        raise MissingRuleError(
            f"{of}() has a rule for one uncertain argument, but was given several",
            "write a rule for the layer that calls it: @implements(YourLayer, exactness=...)",
        )


@implements(F.dropout, exactness="exact", modules=[nn.Dropout], note="given the mask")
@by_number
def dropout(x: Gaussian, p: float = 0.5, training: bool = True, inplace: bool = False) -> Gaussian:
    r"""Moments of :math:`z x` for a mask :math:`z \in \{0, 1 / (1 - p)\}` that is drawn once.

    .. math::
        E[y] = z \mu \qquad V[y] = z^2 \sigma^2
    """
    acts = p > 0 and (training or current().masked)
    return current().dropout(x, p) if acts else x


EXPECTED = "at the expected spread"


@implements(F.batch_norm, exactness="exact", modules=[nn.BatchNorm1d], note="in evaluation mode")
@by_node
def batch_norm(
    x: Gaussian,
    running_mean: Tensor | None,
    running_var: Tensor | None,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    training: bool = False,
    momentum: float = 0.1,
    eps: float = 1e-5,
) -> Gaussian:
    r"""Moments of :math:`(x - m) / \sqrt{s + \epsilon} \cdot w + b` with running :math:`m, s`."""
    if training or running_mean is None or running_var is None:
        raise ModelError(
            "batch norm without running statistics depends on all nodes at once",
            "train it with track_running_stats=True",
        )
    return scaled(x, (running_var + eps).rsqrt(), running_mean, weight, bias)


@implements(F.layer_norm, exactness="approximate", modules=[nn.LayerNorm], note=EXPECTED)
@by_node
def layer_norm(
    x: Gaussian,
    normalized_shape: list[int] | tuple[int, ...],
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    eps: float = 1e-5,
) -> Gaussian:
    r"""Moments of :math:`w\,(x - \bar x) / \sqrt{s^2 + \epsilon} + b` over F features.

    Noise widens the spread: with :math:`S = s_\mu^2 + (1 - 1 / F) \bar v + \epsilon`, its expected
    value, and :math:`z = (\mu - \bar\mu) / \sqrt S`

    .. math::
        E[y] = w z + b \qquad
        \frac{\partial y_i}{\partial x_j} =
            \frac{w_i}{\sqrt S} \Bigl(\delta_{ij} - \frac{1 + z_i z_j}{F}\Bigr)
    """
    current().approximates("LayerNorm")
    axes = tuple(range(-len(normalized_shape), 0))
    center = x.mean.mean(axes, keepdim=True)
    size = math.prod(normalized_shape)
    spread = (x.mean - center).square().mean(axes, keepdim=True)
    spread = spread + (1 - 1 / size) * x.var.mean(axes, keepdim=True)
    factor = (spread + eps).rsqrt()
    if x.mean.dim() != 2 or len(axes) > 1:
        return scaled(x, factor, center, weight, bias)
    z = (x.mean - center) * factor
    slope = factor.expand_as(z) if weight is None else factor * weight
    mean = z if weight is None else z * weight
    directions = torch.stack([torch.ones_like(z), z], 1) / math.sqrt(size)
    return without(directions, x, mean if bias is None else mean + bias, slope)


def without(
    directions: Tensor,  # [nodes, k, features]
    x: Gaussian,
    mean: Tensor,  # [nodes, features]
    slope: Tensor,  # [nodes, features]
) -> Gaussian:
    r"""A value with :math:`J_{ij} = s_i (\delta_{ij} - P_{ij})`, where :math:`P = \sum_k r_k r_k'`.

    .. math::
        V[y_i] = s_i^2 \Bigl((1 - P_{ii})^2 v_i + \sum_{j \ne i} P_{ij}^2 v_j\Bigr)

    Of two features nearly everything is taken away, of one all of it: in wide numbers, and the sum
    as that over all j less one term.
    """
    wide, v = directions.double(), x.var.double()
    own = wide.square().sum(1)
    across = (((wide * v[:, None]) @ wide.mT @ wide) * wide).sum(1) - own.square() * v
    var = slope.square() * ((1 - own).square() * v + across.clamp_min(0)).to(x.var)
    left = -slope[:, :, None] * directions.mT
    return recorded(Gaussian(mean, var), (x, Corrected(slope, left, directions)))


@implements(F.normalize, exactness="approximate", note="at the expected length")
@by_node
def normalize(
    x: Gaussian, p: float = 2.0, dim: int = 1, eps: float = 1e-12, out: None = None
) -> Gaussian:
    r"""Moments of :math:`x / \|x\|_p`.

    Noise makes lengths longer: for p = 2, :math:`L^2 = \|\mu\|^2 + \sum_i \sigma_i^2` and
    :math:`\partial y_i / \partial x_j = (\delta_{ij} - \mu_i \mu_j / L^2) / L`. For other p the
    length is that of the means.
    """
    current().approximates("normalize")
    if p != 2 or x.mean.dim() != 2 or dim not in (1, -1):
        length = x.mean.norm(p, dim, keepdim=True).clamp_min(eps)
        return rescaled(x, x.mean / length, 1 / length)
    length = (x.mean.square() + x.var).sum(1, keepdim=True).sqrt().clamp_min(eps)
    along = x.mean / length
    return without(along[:, None], x, along, (1 / length).expand_as(along))


def scaled(
    x: Gaussian, factor: Tensor, center: Tensor, weight: Tensor | None, bias: Tensor | None
) -> Gaussian:
    r"""Moments of :math:`(x - c) f \cdot w + b`."""
    slope = factor if weight is None else factor * weight
    mean = (x.mean - center) * slope
    return rescaled(x, mean if bias is None else mean + bias, slope)
