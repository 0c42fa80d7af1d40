"""The coins behind uncertain links: one for both directions of a link."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True, eq=False)
class Coins:
    """Independent coins, each of which decides about one link.

    Args:
        prob: chance of each, ``[coins]``.
        source: where its link starts, ``[coins]``; the lower number where it goes both ways.
        target: where its link ends, ``[coins]``.
        both_ways: whether it decides about both directions, ``[coins]``.
        of_edge: which coin decides about each column of ``edge_index``, ``[edges]``.
    """

    prob: Tensor
    source: Tensor
    target: Tensor
    both_ways: Tensor
    of_edge: Tensor


def coins_of(edge_index: Tensor, prob: Tensor, nodes: int) -> Coins:  # [2, edges], [edges]
    r"""One coin for :math:`u \to v` and :math:`v \to u` where their chances agree, else one each.

    A link that is listed more than once has one coin.

    Args:
        edge_index: links as the data lists them.
        prob: chance of each; the same wherever a link is repeated (``check_graph`` sees to it).
        nodes: number of nodes.

    Example:
        >>> links = torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]])
        >>> coins_of(links, torch.tensor([0.5, 0.5, 0.7, 0.8]), nodes=3).of_edge
        tensor([0, 0, 1, 2])
    """
    source, target = edge_index.as_subclass(Tensor)
    low, high = torch.minimum(source, target), torch.maximum(source, target)
    pairs, pair = torch.unique(low * nodes + high, return_inverse=True)
    smallest, largest = (
        prob.new_zeros(len(pairs)).scatter_reduce(0, pair, prob, reduce, include_self=False)
        for reduce in ("amin", "amax")
    )
    backward = (source > target).long()
    split = (smallest != largest)[pair]
    keys, coin = torch.unique(2 * pair + split * backward, return_inverse=True)
    first = _first(coin, len(keys))  # [coins]
    directions = _first(2 * pair + backward, 2 * len(pairs)) < len(pair)
    both = directions.view(-1, 2).all(1)[pair] & ~split
    return Coins(
        prob=prob[first],
        source=torch.where(both, low, source)[first],
        target=torch.where(both, high, target)[first],
        both_ways=both[first],
        of_edge=coin,
    )


def _first(group: Tensor, groups: int) -> Tensor:  # [edges] -> [groups]
    """Number of the first edge of each group; the number of edges where there is none."""
    edges = torch.arange(len(group), device=group.device)
    return edges.new_full((groups,), len(group)).scatter_reduce(0, group, edges, "amin")
