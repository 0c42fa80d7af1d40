"""Moments of a rectified Gaussian in one trip through memory."""

# mypy: disable-error-code="no-untyped-def, no-untyped-call, untyped-decorator"
from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

NUMBERS = 1024
TINY = tl.constexpr(torch.finfo(torch.float32).tiny)
ROOT_TWO_PI = tl.constexpr(2.5066282746310002)


def rectified(mean: Tensor, var: Tensor) -> tuple[Tensor, Tensor]:
    """Mean and variance of max(x, 0), of the same shape."""
    out: tuple[Tensor, Tensor] = _Rectified.apply(mean, var)
    return out


def rectified_with_slopes(mean: Tensor, var: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """The same, and the derivatives of the mean by the mean and by the variance."""
    mean, var = mean.contiguous(), var.contiguous()
    out = tuple(torch.empty_like(mean) for _ in range(4))
    size = mean.numel()
    _rectify[(triton.cdiv(size, NUMBERS),)](mean, var, *out, size, SLOPES=True, NUMBERS=NUMBERS)
    return out[0], out[1], out[2], out[3]


class _Rectified(torch.autograd.Function):
    """Batches of masks are more numbers of the same kind."""

    @staticmethod
    def forward(mean: Tensor, var: Tensor) -> tuple[Tensor, Tensor]:
        mean, var = mean.contiguous(), var.contiguous()
        out, size = (torch.empty_like(mean), torch.empty_like(var)), mean.numel()
        _rectify[(triton.cdiv(size, NUMBERS),)](
            mean, var, *out, mean, var, size, SLOPES=False, NUMBERS=NUMBERS
        )
        return out

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        pass

    @staticmethod
    def vmap(info: Any, in_dims: Any, *values: Tensor) -> Any:
        first = [
            value.expand(info.batch_size, *value.shape) if dim is None else value.movedim(dim, 0)
            for value, dim in zip(values, in_dims, strict=True)
        ]
        return rectified(*first), (0, 0)


@triton.jit
def _rectify(
    mean, var, out_mean, out_var, slope, half, size, SLOPES: tl.constexpr, NUMBERS: tl.constexpr
):
    at = tl.program_id(0).to(tl.int64) * NUMBERS + tl.arange(0, NUMBERS)
    inside = at < size
    mu, square = tl.load(mean + at, mask=inside), tl.load(var + at, mask=inside)
    std = tl.sqrt(tl.maximum(square, TINY))
    a = tl.minimum(tl.maximum(mu / std, -30.0), 30.0)
    density = tl.exp(-a * a / 2) / ROOT_TWO_PI
    tail = density * _mills(tl.abs(a))
    upper, lower = tl.where(a > 0, 1 - tail, tail), tl.where(a > 0, tail, 1 - tail)
    shrink = upper + a * (a * upper * lower + density * (lower - upper)) - density * density
    tl.store(out_mean + at, mu * upper + std * density, mask=inside)
    tl.store(out_var + at, square * tl.maximum(shrink, 0.0), mask=inside)
    if SLOPES:
        tl.store(slope + at, upper, mask=inside)
        by_var = tl.where(square < TINY, 0.0, density / (2 * std))
        tl.store(half + at, by_var, mask=inside)


@triton.jit
def _mills(a):
    """Upper tail of a normal over its density, for a from 0 to 30, to 2e-7 of itself.

    A polynomial in t = 4 / (4 + a), fitted to the largest relative error.
    """
    t = 4.0 / (4.0 + a)
    value = -0.2063766 + t * 0.05059402
    value = -0.08137823 + t * (0.24435137 + t * value)
    value = 0.14979599 + t * (0.15823276 + t * value)
    value = 0.23451075 + t * (0.20360722 + t * value)
    return t * (0.25000118 + t * (0.24997571 + t * value))
