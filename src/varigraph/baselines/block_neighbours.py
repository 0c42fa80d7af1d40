"""The links of a graph, looked up for many nodes at once."""

from __future__ import annotations

import torch
from torch import Tensor


class BlockNeighbours:
    """Who is linked to whom.

    Args:
        links: each link once, no self links, ``[2, links]``.
        nodes: how many nodes there are.

    Example:
        >>> star = BlockNeighbours(torch.tensor([[0, 0], [1, 2]]), nodes=4)
        >>> place, other = star.of(torch.tensor([3, 0, 2]))
        >>> place.tolist(), other.tolist()
        ([1, 1, 2], [1, 2, 0])
    """

    def __init__(self, links: Tensor, *, nodes: int) -> None:
        both = torch.cat([links, links.flip(0)], dim=1)
        order = (both[0] * nodes + both[1]).argsort()
        self._other = both[1, order]
        self.degree = torch.bincount(both[0], minlength=nodes)  # [nodes]
        self._start = self.degree.cumsum(0) - self.degree

    def of(self, rows: Tensor) -> tuple[Tensor, Tensor]:  # [rows] -> [found], [found]
        """For each link of these nodes: the node's place among them, and who is at its far end."""
        degree = self.degree[rows]
        place = torch.arange(len(rows), device=rows.device).repeat_interleave(degree)
        offset = self._start[rows] - (degree.cumsum(0) - degree)  # [rows]
        found = torch.arange(len(place), device=rows.device)
        return place, self._other[offset[place] + found]
