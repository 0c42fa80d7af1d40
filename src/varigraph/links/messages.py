"""What nodes hear from their neighbours, with some links kept silent."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from varigraph.sparse import Sparse


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

    def all(self) -> NeighbourMeans:
        """Every link is heard."""
        return self._neighbours(self._rows, self._columns)

    def without(self, silent: Tensor) -> NeighbourMeans:  # [links] bool
        """Those links are heard that are not silent."""
        heard = ~silent[self._link]
        return self._neighbours(self._rows[heard], self._columns[heard])

    def _neighbours(self, rows: Tensor, columns: Tensor) -> NeighbourMeans:
        degree = torch.bincount(rows, minlength=self._nodes)
        ones = torch.ones(len(columns), device=rows.device)
        matrix = Sparse(rows, columns, ones, (self._nodes, self._nodes), symmetric=True)
        return NeighbourMeans(matrix, degree.float()[:, None])


@dataclass(frozen=True, eq=False)
class NeighbourMeans:
    """Who hears whom.

    Args:
        matrix: 1 for each pair of neighbours, symmetric, ``[nodes, nodes]``.
        degree: how many neighbours each node has, ``[nodes, 1]``.
    """

    matrix: Sparse
    degree: Tensor

    def mean(self, x: Tensor) -> Tensor:  # [nodes, features] -> [nodes, features]
        """Mean of the neighbours' features, 0 for a node that has none."""
        return (self.matrix @ x) / self.degree.clamp_min(1)
