"""Links as pairs of nodes, each pair once, sorted by the node that receives."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from varigraph.errors import ModelError


@dataclass(frozen=True, eq=False)
class CountedPairs:
    """Pairs of nodes, and how many links join each.

    Args:
        target: node that receives, sorted, ``[pairs]``, in 32 bits.
        source: node that sends, ``[pairs]``, in 32 bits.
        copies: number of links, ``[pairs]``.
    """

    target: Tensor
    source: Tensor
    copies: Tensor

    def per_target(self, nodes: int) -> Tensor:  # [nodes]
        """Number of links that reach each node."""
        return self.copies.new_zeros(nodes).index_add_(0, self.target, self.copies)


def counted(target: Tensor, source: Tensor, nodes: int) -> CountedPairs:
    """Pairs without anything else that belongs to them: sorted in place, in little memory.

    Args:
        target: node that receives, ``[links]``.
        source: node that sends, ``[links]``.
        nodes: number of nodes.
    """
    keys = _sorted(torch.add(source, target, alpha=nodes))
    copies = torch.ones_like(keys, dtype=torch.int32)
    if bool((keys[1:] == keys[:-1]).any()):
        keys, copies = torch.unique_consecutive(keys, return_counts=True)
    first = (keys // nodes).int()
    return CountedPairs(first, keys.remainder_(nodes).int(), copies)


def _sorted(keys: Tensor) -> Tensor:
    if keys.device.type != "cpu":
        return keys.sort().values
    keys.numpy().sort()  # in place, and several times faster than torch's
    return keys


@dataclass(frozen=True, eq=False)
class Pairs:
    """Pairs of nodes, and which link is which of them.

    Args:
        target: node that receives, sorted, ``[pairs]``.
        source: node that sends, ``[pairs]``.
        order: links in the order of the pairs, ``[links]``.
        pair: number of the pair of each link in that order, ``[links]``; None where no link is
            listed twice.
    """

    target: Tensor
    source: Tensor
    order: Tensor
    pair: Tensor | None

    def added(self, of_link: Tensor) -> Tensor:  # [links] -> [pairs]
        """The sum of what the links of a pair have."""
        sorted_ = of_link[self.order]
        if self.pair is None:
            return sorted_
        return sorted_.new_zeros(len(self.target)).index_add_(0, self.pair, sorted_)

    def first(self, of_link: Tensor) -> Tensor:  # [links] -> [pairs]
        """What one link of each pair has."""
        sorted_ = of_link[self.order]
        if self.pair is None:
            return sorted_
        return sorted_.new_zeros(len(self.target)).index_copy_(0, self.pair, sorted_)


def merged(target: Tensor, source: Tensor, nodes: int) -> Pairs:
    """One pair for all links between the same two nodes in the same direction.

    Args:
        target: node that receives, ``[links]``.
        source: node that sends, ``[links]``.
        nodes: number of nodes.
    """
    keys, order = (target.long() * nodes + source).sort()
    other = torch.ones_like(keys, dtype=torch.bool)
    torch.ne(keys[1:], keys[:-1], out=other[1:])
    pair = None if bool(other.all()) else other.cumsum(0) - 1
    distinct = keys if pair is None else keys[other]
    return Pairs(distinct // nodes, distinct % nodes, order, pair)


def each_once(target: Tensor, source: Tensor, weight: Tensor, nodes: int) -> Tensor:
    """Weights that add up, over the copies of a link, to the weight of one."""
    _, pair, copies = torch.unique(target * nodes + source, return_inverse=True, return_counts=True)
    total = weight.new_zeros(len(copies)).index_add_(0, pair, weight)
    if not torch.allclose(total[pair], weight * copies[pair]):
        raise ModelError(
            "a layer takes the largest message, and a link is listed twice with other weights",
            "merge repeated links first: torch_geometric.utils.coalesce",
        )
    share: Tensor = weight / copies[pair]
    return share
