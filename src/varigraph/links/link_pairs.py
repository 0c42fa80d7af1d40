"""Pairs of nodes, each with a number of its own, so that sets of pairs are sets of numbers."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from varigraph.errors import GraphError


@dataclass(frozen=True, eq=False)
class LinkPairs:
    """The links of a graph without direction, each once.

    Args:
        pairs: their ends, the lower one first, ``[2, links]``.
        link_of_edge: which of them each edge belongs to, -1 for a self link, ``[edges]``.
        nodes: how many nodes the graph has.
    """

    pairs: Tensor
    link_of_edge: Tensor
    nodes: int

    def __len__(self) -> int:
        return self.pairs.size(1)

    @property
    def possible(self) -> int:
        """How many pairs of different nodes there are."""
        return self.nodes * (self.nodes - 1) // 2


def link_pairs(edge_index: Tensor, *, nodes: int) -> LinkPairs:  # [2, edges]
    """The links behind the edges: directions and repetitions fall together, self links fall out.

    Example:
        >>> links = link_pairs(torch.tensor([[0, 1, 2, 2], [1, 0, 2, 0]]), nodes=3)
        >>> links.pairs.tolist(), links.link_of_edge.tolist()
        ([[0, 0], [1, 2]], [0, 0, -1, 1])
    """
    proper = edge_index[0] != edge_index[1]  # [edges]
    numbers, place = pair_numbers(edge_index[:, proper]).unique(return_inverse=True)
    link_of_edge = torch.full_like(edge_index[0], -1)
    link_of_edge[proper] = place
    return LinkPairs(numbered_pairs(numbers), link_of_edge, nodes)


def pair_numbers(pairs: Tensor) -> Tensor:  # [2, pairs] -> [pairs]
    r"""Number of each pair of different nodes, whatever the order of its ends.

    .. math:: \frac{h (h - 1)}{2} + l \quad \text{for the ends } l < h

    The pairs among the first n nodes have the numbers from 0 to n (n - 1) / 2 - 1.

    Example:
        >>> pair_numbers(torch.tensor([[0, 2, 1], [1, 0, 2]])).tolist()
        [0, 1, 2]
    """
    low, high = pairs.min(dim=0).values, pairs.max(dim=0).values
    return high * (high - 1) // 2 + low


def numbered_pairs(numbers: Tensor) -> Tensor:  # [pairs] -> [2, pairs]
    """The pairs that have these numbers, the lower end first."""
    high = ((1 + (1 + 8 * numbers.double()).sqrt()) / 2).long()
    # Rounding can put the root on the wrong side of a whole number.
    high = high - (high * (high - 1) // 2 > numbers).long()
    high = high + (high * (high + 1) // 2 <= numbers).long()
    return torch.stack([numbers - high * (high - 1) // 2, high])


def non_links(
    taken: Tensor,  # [2, taken]
    *,
    nodes: int,
    count: int,
    generator: torch.Generator,
) -> Tensor:  # -> [2, count], in random order
    """Different pairs, drawn uniformly from all that are not taken.

    Args:
        taken: the links, and whatever else must not be drawn; each pair once.
        nodes: how many nodes there are.
        count: how many pairs to draw.
        generator: draws them.

    Raises:
        GraphError: if there are not that many.
    """
    possible = nodes * (nodes - 1) // 2
    free = possible - taken.size(1)
    if count > free:
        raise GraphError(
            f"{count} non-links are needed to compare with, but the graph has {free}: "
            f"{taken.size(1)} of {possible} pairs are linked",
            "give a graph in which fewer than half of the pairs are linked",
        )
    ranks = _distinct(free, count, generator)
    numbers = pair_numbers(taken).sort().values.cpu()
    # Before the r-th free pair stand those taken that have at most r free ones before them.
    before = torch.searchsorted(numbers - torch.arange(len(numbers)), ranks, right=True)
    return numbered_pairs(ranks + before).to(taken.device)


def _distinct(below: int, count: int, generator: torch.Generator) -> Tensor:  # -> [count]
    """Different whole numbers from 0 to ``below`` - 1, in random order."""
    if below <= 4 * count:
        return torch.randperm(below, generator=generator)[:count]
    drawn = torch.empty(0, dtype=torch.long)
    while len(drawn) < count:
        more = torch.randint(below, (2 * count,), generator=generator)
        drawn = torch.cat([drawn, more]).unique()
    return drawn[torch.randperm(len(drawn), generator=generator)[:count]]
