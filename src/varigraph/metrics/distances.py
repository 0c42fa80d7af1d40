"""How far nodes are from the nearest of some."""

from __future__ import annotations

import torch
from torch import Tensor

#: The distance of a node that no path leads to.
UNREACHABLE = -1


def distances(edge_index: Tensor, start: Tensor) -> Tensor:  # [2, edges], [nodes] bool -> [nodes]
    """Fewest links to any of the starting nodes, in either direction; -1 where there is no path.

    Breadth first: all nodes of one distance are found at once.

    Example:
        >>> links = torch.tensor([[0, 1], [1, 2]])
        >>> distances(links, torch.tensor([True, False, False, False])).tolist()
        [0, 1, 2, -1]
    """
    found, reached = torch.where(start, 0, UNREACHABLE), start.clone()
    source, target = torch.cat([edge_index, edge_index.flip(0)], dim=1)
    for distance in range(1, len(start)):
        waiting = ~reached[target]
        source, target = source[waiting], target[waiting]
        fresh = target[reached[source]]
        if not len(fresh):
            break
        found[fresh], reached[fresh] = distance, True
    return found
