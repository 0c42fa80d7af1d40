"""Sums and means along an axis or over groups."""

from __future__ import annotations

import torch
from torch import Tensor

from varigraph.errors import MissingRuleError
from varigraph.moments.gaussian import Gaussian
from varigraph.moments.linear import certain
from varigraph.moments.maximum import group_max
from varigraph.moments.operators import Sum
from varigraph.moments.propagation import recorded
from varigraph.moments.registry import implements
from varigraph.moments.sparse import Sparse

Axes = int | list[int] | tuple[int, ...] | None


@implements("sum", exactness="exact for independent inputs")
def total(x: Gaussian, dim: Axes = None, keepdim: bool = False) -> Gaussian:
    r"""Moments of :math:`\sum_i x_i`: means add, variances add."""
    return Gaussian(torch.sum(x.mean, dim, keepdim), torch.sum(x.var, dim, keepdim))


@implements("mean", exactness="exact for independent inputs")
def mean(x: Gaussian, dim: Axes = None, keepdim: bool = False) -> Gaussian:
    r"""Moments of :math:`\frac{1}{n} \sum x_i`; the variance is :math:`\frac{1}{n^2} \sum v_i`."""
    average = torch.mean(x.mean, dim, keepdim)
    count = x.mean.numel() / average.numel()
    return Gaussian(average, torch.mean(x.var, dim, keepdim) / count)


@implements("scatter_add", exactness="exact for independent inputs", note="sum and mean pooling")
def scatter_add(x: Tensor, dim: int, index: Tensor, src: Gaussian) -> Gaussian:
    r"""Moments of sums over groups: :math:`y_g = x_g + \sum_{i \in g} s_i`."""
    certain(x, of="scatter_add, for what is added to")
    out = Gaussian(
        x.scatter_add(dim, index, src.mean), torch.zeros_like(x).scatter_add(dim, index, src.var)
    )
    if src.mean.dim() == 2 and dim in (0, -2) and index.stride(-1) == 0:  # whole rows
        group = index[:, 0]
        order = group.argsort(stable=True)
        ones = torch.ones_like(group, dtype=src.mean.dtype)
        recorded(out, (src, Sum(Sparse(group[order], order, ones, (len(x), len(src))))))
    return out


@implements("index_add", exactness="exact for independent inputs")
def index_add(
    x: Tensor, dim: int, index: Tensor, source: Gaussian, *, alpha: float = 1
) -> Gaussian:
    r"""Moments of sums over groups: :math:`y_g = x_g + \alpha \sum_{i \in g} s_i`."""
    certain(x, of="index_add, for what is added to")
    return Gaussian(
        x.index_add(dim, index, source.mean, alpha=alpha),
        torch.zeros_like(x).index_add(dim, index, source.var, alpha=alpha**2),
    )


@implements("scatter_reduce", exactness="exact for independent inputs", note="max pooling")
def scatter_reduce(
    x: Tensor, dim: int, index: Tensor, src: Gaussian, reduce: str, include_self: bool = True
) -> Gaussian:
    """Moments of the largest value of each group, as max pooling asks for it."""
    if reduce != "amax" or include_self or src.mean.dim() != 2 or dim % 2 != 0:
        raise MissingRuleError(
            f"scatter_reduce({reduce!r}, include_self={include_self}, dim={dim}) has no rule",
            "pool with global_mean_pool, global_add_pool or global_max_pool",
        )
    return group_max(src, index[:, 0], groups=x.shape[0])
