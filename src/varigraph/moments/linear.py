"""Linear maps."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from varigraph.errors import MissingRuleError
from varigraph.moments.affine import Affine
from varigraph.moments.by_rows import by_node
from varigraph.moments.gaussian import Gaussian, mapped_variance
from varigraph.moments.neighbour_sum import NeighbourSum
from varigraph.moments.operators import Dense, Scale
from varigraph.moments.propagation import added, current, recorded
from varigraph.moments.registry import implements
from varigraph.moments.sparse import csr_tensor


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
        return shifted(x.neighbours.sum(_mapped(x.x, weight)), bias, spare=True)
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
def shifted(x: Gaussian, by: Tensor | None, *, spare: bool = False) -> Gaussian:
    """Moments of :math:`x + b` for a certain b; a spare x is not looked at any more."""
    if by is None:
        return x
    if isinstance(x, Affine):
        return rescaled(x, x.mean + by, torch.ones_like(by))
    mean = added(x.mean, by, spare=spare)
    return recorded(Gaussian(mean, x.var.expand_as(mean)), (x, Scale(torch.ones_like(by))))


def rescaled(x: Gaussian, mean: Tensor, slope: Tensor) -> Gaussian:
    """A value of given mean that responds to x with a slope, number by number."""
    per_feature = slope.dim() < 2 or slope.shape[0] == 1
    if isinstance(x, Affine) and per_feature and mean.shape == x.mean.shape:
        out: Gaussian = x.scaled(slope, mean)
    else:
        out = Gaussian(mean, (x.var * slope.square()).expand_as(mean))
    return recorded(out, (x, Scale(slope)))


@implements("matmul", "mm", exactness="exact for independent inputs")
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
