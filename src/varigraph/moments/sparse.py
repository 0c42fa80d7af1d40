"""A sparse matrix that multiplies node features, differentiable and batched over samples."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch
from torch import Tensor


def csr_tensor(start: Tensor, columns: Tensor, values: Tensor, shape: tuple[int, ...]) -> Tensor:
    """A tensor in compressed rows, without torch's notice that these are in beta."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Sparse CSR tensor support is in beta")
        return torch.sparse_csr_tensor(start, columns, values, shape, check_invariants=False)


@dataclass(frozen=True, eq=False)
class Sparse:
    """A sparse matrix in compressed rows.

    Args:
        rows: row of each entry, sorted, ``[entries]``.
        columns: column of each entry, ``[entries]``.
        values: the entries, ``[entries]``.
        shape: numbers of rows and columns.
    """

    rows: Tensor
    columns: Tensor
    values: Tensor
    shape: tuple[int, int]

    @cached_property
    def start(self) -> Tensor:  # [rows + 1]
        """Where each row starts among the entries."""
        counts = torch.bincount(self.rows, minlength=self.shape[0])
        return torch.cat([counts.new_zeros(1), counts.cumsum(0)])

    @cached_property
    def csr(self) -> Tensor:
        """The matrix as torch's product wants it."""
        return csr_tensor(self.start, self.columns, self.values, self.shape)

    def walks(self, rows: Tensor) -> tuple[Tensor, Tensor]:  # [asked] -> [walks], [walks]
        """The entries of the rows asked for, one after the other: who asked, and which entry."""
        counts = self.start[rows + 1] - self.start[rows]
        asked = torch.repeat_interleave(torch.arange(len(rows), device=rows.device), counts)
        first = self.start[rows] - (counts.cumsum(0) - counts)
        return asked, torch.arange(len(asked), device=rows.device) + first[asked]

    def picked(self, rows: Tensor) -> Sparse:
        """The rows asked for, as a matrix of their own."""
        asked, entry = self.walks(rows)
        return Sparse(asked, self.columns[entry], self.values[entry], (len(rows), self.shape[1]))

    def times(self, other: Sparse) -> Sparse:
        """The product of two sparse matrices; the entries within a row are in any order."""
        product = torch.sparse.mm(self.csr, other.csr)
        start = product.crow_indices()
        rows = torch.arange(self.shape[0], device=start.device).repeat_interleave(start.diff())
        entries = product.col_indices(), product.values()
        return Sparse(rows, *entries, (self.shape[0], other.shape[1]))

    def row_products(self, other: Sparse, weight: Tensor) -> Tensor:  # [columns] -> [rows]
        r""":math:`\sum_w A_{uw} B_{uw} n_w` for every row u."""
        if other is self:
            found = self.values.square()
        else:
            if len(other.values) > len(self.values):
                return other.row_products(self, weight)
            if len(other.values) == 0:
                return self.values.new_zeros(self.shape[0])
            keys, order = (other.rows * other.shape[1] + other.columns).sort()
            wanted = self.rows * self.shape[1] + self.columns
            place = torch.searchsorted(keys, wanted).clamp_max(len(keys) - 1)
            theirs = other.values[order[place]]
            found = torch.where(keys[place] == wanted, self.values * theirs, 0)
        found = found * weight[self.columns]
        return found.new_zeros(self.shape[0]).index_add_(0, self.rows, found)

    @cached_property
    def transpose(self) -> Sparse:
        """Rows and columns exchanged."""
        order = self.columns.argsort(stable=True)
        swapped = self.columns[order], self.rows[order], self.values[order]
        return Sparse(*swapped, (self.shape[1], self.shape[0]))

    def __matmul__(self, x: Tensor) -> Tensor:  # [columns, features] -> [rows, features]
        return _Product.apply(self, x)  # type: ignore[no-any-return,no-untyped-call]


class _Product(torch.autograd.Function):
    """``matrix @ x``. torch has no rule for a batch of right-hand sides: they become columns."""

    @staticmethod
    def forward(matrix: Sparse, x: Tensor) -> Tensor:
        return matrix.csr @ x.contiguous()

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        ctx.matrix = inputs[0]

    @staticmethod
    def backward(ctx: Any, *grad: Tensor) -> tuple[None, Tensor]:
        return None, ctx.matrix.transpose @ grad[0]

    @staticmethod
    def vmap(info: Any, in_dims: tuple[Any, int], matrix: Sparse, x: Tensor) -> tuple[Tensor, int]:
        columns = x.movedim(in_dims[1], 1)  # [nodes, samples, features]
        product = matrix @ columns.flatten(1)
        return product.view(-1, *columns.shape[1:]), 1
