"""Linear maps."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from varigraph.errors import MissingRuleError
from varigraph.moments.gaussian import Gaussian
from varigraph.moments.neighbours import NeighbourSum
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
        mapped = x.neighbours.sum(linear(x.x, weight))
    else:
        mapped = Gaussian(F.linear(x.mean, weight), F.linear(x.var, weight.square()))
    return mapped if bias is None else Gaussian(mapped.mean + bias, mapped.var)


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
