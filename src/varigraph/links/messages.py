"""What nodes hear from their neighbours, with some links kept silent."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor


class Messages:
    """The links over which messages may travel.

    Args:
        links: each link once, no self links, ``[2, links]``.
        nodes: how many nodes there are.
    """

    def __init__(self, links: Tensor, *, nodes: int) -> None:
        both = torch.cat([links, links.flip(0)], dim=1)
        order = (both[0] * nodes + both[1]).argsort()
        self._rows, self._columns = both[:, order]
        self._link = order % max(links.size(1), 1)
        self._nodes = nodes

    def all(self) -> Neighbours:
        """Every link is heard."""
        return self._neighbours(self._rows, self._columns)

    def without(self, silent: Tensor) -> Neighbours:  # [links] bool
        """Those links are heard that are not silent."""
        heard = ~silent[self._link]
        return self._neighbours(self._rows[heard], self._columns[heard])

    def _neighbours(self, rows: Tensor, columns: Tensor) -> Neighbours:
        degree = torch.bincount(rows, minlength=self._nodes)
        start = torch.cat([degree.new_zeros(1), degree.cumsum(0)])
        ones = torch.ones(len(columns), device=rows.device)
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="Sparse CSR tensor support is in beta")
            warnings.filterwarnings("ignore", message="Sparse invariant checks are implicitly")
            matrix = torch.sparse_csr_tensor(
                start, columns, ones, (self._nodes, self._nodes), check_invariants=False
            )
        return Neighbours(matrix, degree.float()[:, None])


@dataclass(frozen=True, eq=False)
class Neighbours:
    """Who hears whom.

    Args:
        matrix: 1 for each pair of neighbours, symmetric, sparse CSR, ``[nodes, nodes]``.
        degree: how many neighbours each node has, ``[nodes, 1]``.
    """

    matrix: Tensor
    degree: Tensor

    def mean(self, x: Tensor) -> Tensor:  # [nodes, features] -> [nodes, features]
        """Mean of the neighbours' features, 0 for a node that has none."""
        total: Tensor = _SymmetricProduct.apply(self.matrix, x)  # type: ignore[no-untyped-call]
        return total / self.degree.clamp_min(1)


class _SymmetricProduct(torch.autograd.Function):
    """A symmetric matrix times features: backwards it is the same product."""

    @staticmethod
    def forward(ctx: Any, matrix: Tensor, x: Tensor) -> Tensor:
        ctx.matrix = matrix
        return matrix @ x

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[None, Tensor]:
        return None, ctx.matrix @ gradients[0].contiguous()
