"""Weighted sums of the rows that a sparse matrix names, a row of the answer at a time."""

# mypy: disable-error-code="no-untyped-def, no-untyped-call, untyped-decorator"
from __future__ import annotations

from typing import NamedTuple

import triton
import triton.language as tl
from torch import Tensor

#: Numbers that are loaded at once: rows start where loads of this width can.
TOGETHER = 4
#: Rows that one program gathers at once, and the widest part of a row that it holds.
GATHERED, WIDEST = 8, 256
#: Warps of a program by the numbers of a row that it holds, the fastest on an H200; others 2.
WARPS = {128: 1}
#: Numbers that one program packs.
PACKED = 2048


class Rows(NamedTuple):
    """A sparse matrix in compressed rows.

    Args:
        start: where each row starts among the entries, ``[rows + 1]``.
        columns: column of each entry, ``[entries]``.
        values: of the entries, ``[entries]``, or of the rows, ``[rows]``, if ``even``.
        order: rows in the order in which to begin them, ``[rows]``: long ones first, or the last
            to begin would keep all others waiting.
        even: whether all entries of a row have the same value.
    """

    start: Tensor
    columns: Tensor
    values: Tensor
    order: Tensor
    even: bool


def neighbour_sums(matrix: Rows, x: Tensor) -> Tensor:  # [columns, features] -> [rows, features]
    """The product of a sparse matrix and a dense one."""
    aligned = x.shape[1] % TOGETHER == 0 and x.is_contiguous()
    return _summed(matrix, x if aligned else _packed(x), x.shape[1], x.shape[1])


def neighbour_moments(
    matrix: Rows,
    mean: Tensor,  # [columns, features]
    var: Tensor,  # [columns, features]
) -> tuple[Tensor, Tensor]:  # [rows, features] each
    """Products of the matrix with the means, and of its squares with the variances.

    They go side by side, so that a link is read once for both.
    """
    width = mean.shape[1]
    out = _summed(matrix, _packed(mean, var), 2 * width, width)
    return out[:, :width], out[:, width:]


def _summed(matrix: Rows, x: Tensor, width: int, plain: int) -> Tensor:  # [rows, width]
    """Sums of the first features; from ``plain`` on values are squared."""
    rows, stride = len(matrix.order), x.shape[1]
    out = x.new_empty(rows, width)
    features = min(triton.next_power_of_2(stride), WIDEST)
    _sum[rows, triton.cdiv(stride, features)](
        *matrix[:4], x, out, stride // TOGETHER, width, plain,
        EVEN=matrix.even, FEATURES=features, GATHERED=GATHERED, TOGETHER=TOGETHER,
        num_warps=WARPS.get(features, 2),
    )  # fmt: skip
    return out


def _packed(first: Tensor, second: Tensor | None = None) -> Tensor:  # [rows, stride]
    """One or two tensors side by side, and zeros, so that each row starts where loads can."""
    first = first.contiguous()
    second = first if second is None else second.contiguous()
    (rows, width), parts = first.shape, 1 if second is first else 2
    stride = triton.cdiv(parts * width, TOGETHER) * TOGETHER
    out = first.new_empty(rows, stride)
    columns = triton.next_power_of_2(stride)
    together = max(PACKED // columns, 1)
    _pack[(triton.cdiv(rows, together),)](
        first, second, out, rows, width, parts * width, stride, ROWS=together, COLUMNS=columns
    )
    return out


@triton.jit
def _sum(
    start, columns, values, order, x, out, stride, width, plain,
    EVEN: tl.constexpr, FEATURES: tl.constexpr, GATHERED: tl.constexpr, TOGETHER: tl.constexpr,
):  # fmt: skip
    row = tl.load(order + tl.program_id(0)).to(tl.int64)
    entry, last = tl.load(start + row), tl.load(start + row + 1)
    feature = tl.program_id(1) * FEATURES + tl.arange(0, FEATURES)
    there = (feature < stride * TOGETHER)[None, :]
    squared = (feature >= plain)[None, :]
    total = tl.zeros([GATHERED, FEATURES], tl.float32)
    while entry < last:
        one = entry + tl.arange(0, GATHERED)
        column = tl.load(columns + one, mask=one < last, other=0).to(tl.int64)
        at = x + (column * stride * TOGETHER)[:, None] + feature[None, :]
        gathered = tl.load(at, mask=(one < last)[:, None] & there, other=0.0)
        if EVEN:
            total += gathered
        else:
            value = tl.load(values + one, mask=one < last, other=0.0)[:, None]
            total += tl.where(squared, value * value, value) * gathered
        entry += GATHERED
    summed = tl.sum(total, 0)
    if EVEN:
        value = tl.load(values + row)
        summed *= tl.where(feature >= plain, value * value, value)
    tl.store(out + row * width + feature, summed, mask=feature < width)


@triton.jit
def _pack(
    first, second, out, rows, width, both, stride, ROWS: tl.constexpr, COLUMNS: tl.constexpr
):  # fmt: skip
    row = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)[:, None]
    column = tl.arange(0, COLUMNS)[None, :]
    inside = row < rows
    own, other = inside & (column < width), inside & (column >= width) & (column < both)
    one = tl.load(first + row * width + column, mask=own, other=0.0)
    two = tl.load(second + row * width + column - width, mask=other, other=0.0)
    tl.store(out + row * stride + column, one + two, mask=inside & (column < stride))
