"""Features of which most are 0: their product with weights, and dropout of the others."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from varigraph.moments.sparse import csr_tensor

#: Features of which fewer than this share differ from 0 are kept as a sparse matrix.
SHARE = 0.2


@dataclass(frozen=True, eq=False)
class SparseFeatures:
    """A sparse matrix ``[nodes, features]`` whose transpose is sorted once and not at every step.

    Args:
        values: what differs from 0, row by row, ``[entries]``.
        by_row: where each row starts, and the column of each entry.
        by_column: where each column starts, and the row of each entry in the order of columns.
        order: the entries in the order of columns, ``[entries]``.
        shape: numbers of nodes and features.
    """

    values: Tensor
    by_row: tuple[Tensor, Tensor]
    by_column: tuple[Tensor, Tensor]
    order: Tensor
    shape: tuple[int, int]

    def __matmul__(self, weight: Tensor) -> Tensor:  # [features, hidden] -> [nodes, hidden]
        product: Tensor = _Product.apply(self, weight)  # type: ignore[no-untyped-call]
        return product


class _Product(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: SparseFeatures, weight: Tensor) -> Tensor:
        ctx.x = x
        return csr_tensor(*x.by_row, x.values, x.shape) @ weight

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[None, Tensor]:
        x: SparseFeatures = ctx.x
        transpose = csr_tensor(*x.by_column, x.values[x.order], (x.shape[1], x.shape[0]))
        return None, transpose @ gradients[0].contiguous()


def lean(x: Tensor) -> Tensor | SparseFeatures:  # [nodes, features] -> the same
    """The same features, sparse where few of them differ from 0; that saves most of the time."""
    if x.count_nonzero() >= SHARE * x.numel():
        return x
    rows, columns = x.nonzero().unbind(dim=1)
    order = columns.argsort(stable=True)
    return SparseFeatures(
        values=x[rows, columns],
        by_row=(_starts(rows, x.size(0)), columns),
        by_column=(_starts(columns, x.size(1)), rows[order]),
        order=order,
        shape=(x.size(0), x.size(1)),
    )


def dropped(
    x: Tensor | SparseFeatures, rate: float, generator: torch.Generator
) -> Tensor | SparseFeatures:  # [nodes, features] -> the same
    """Features of which a share is set to 0 and the rest scaled up, so that the mean stays."""
    values = x.values if isinstance(x, SparseFeatures) else x
    kept = torch.rand(values.shape, generator=generator, device=values.device)
    # In place: most of the time of a step goes into touching new memory here.
    scaled_mask = kept.ge_(rate).div_(1 - rate)
    if isinstance(x, SparseFeatures):
        return replace(x, values=scaled_mask.mul_(values))
    return scaled_mask.mul_(x) if not x.requires_grad else x * scaled_mask


def _starts(sorted_numbers: Tensor, count: int) -> Tensor:  # [entries] -> [count + 1]
    return F.pad(torch.bincount(sorted_numbers, minlength=count).cumsum(0), (1, 0))
