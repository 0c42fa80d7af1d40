"""Scores that need no training: how many neighbours the two ends have in common."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.sparse import csr_array
from torch import Tensor


def common_neighbours(
    pairs: Tensor,  # [2, pairs]
    links: Tensor,  # [2, links]
    *,
    nodes: int,
) -> Tensor:  # -> [pairs]
    r"""How many neighbours the two ends share.

    .. math:: |N(u) \cap N(v)|

    Args:
        pairs: the pairs to score.
        links: the links of the graph, each once, without self links.
        nodes: how many nodes there are.

    Example:
        >>> square = torch.tensor([[0, 1, 2, 3], [1, 2, 3, 0]])
        >>> common_neighbours(torch.tensor([[0, 0], [2, 1]]), square, nodes=4).tolist()
        [2.0, 0.0]
    """
    return _shared(pairs, _adjacency(links, nodes), np.ones(nodes))


def adamic_adar(
    pairs: Tensor,  # [2, pairs]
    links: Tensor,  # [2, links]
    *,
    nodes: int,
) -> Tensor:  # -> [pairs]
    r"""Shared neighbours, of which those with few links count more.

    .. math:: \sum_{w \in N(u) \cap N(v)} \frac{1}{\log |N(w)|}

    Args:
        pairs: the pairs to score.
        links: the links of the graph, each once, without self links.
        nodes: how many nodes there are.

    Example:
        >>> square = torch.tensor([[0, 1, 2, 3], [1, 2, 3, 0]])
        >>> adamic_adar(torch.tensor([[0], [2]]), square, nodes=4)
        tensor([2.8854], dtype=torch.float64)
    """
    adjacency = _adjacency(links, nodes)
    degree = np.diff(adjacency.indptr)
    # Whoever is shared by two nodes has two neighbours at least, so lower degrees never count.
    return _shared(pairs, adjacency, 1 / np.log(np.maximum(degree, 2)))


def _adjacency(links: Tensor, nodes: int) -> csr_array:
    ends = links.cpu().numpy()
    rows, columns = np.concatenate([ends, ends[::-1]], axis=1)
    return csr_array((np.ones(len(rows)), (rows, columns)), shape=(nodes, nodes))


def _shared(pairs: Tensor, adjacency: csr_array, weight: NDArray[np.float64]) -> Tensor:
    one, two = pairs.cpu().numpy()
    both = adjacency[one].multiply(adjacency[two])  # [pairs, nodes]
    return torch.from_numpy(both @ weight).to(pairs.device)
