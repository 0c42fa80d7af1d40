"""What a node's neighbours say."""

from __future__ import annotations

import torch
from torch import Tensor


def degrees(edge_index: Tensor, nodes: int) -> Tensor:  # [2, edges] -> [nodes]
    """How many links lead to each node, double."""
    return torch.bincount(edge_index[1], minlength=nodes).double()


def neighbours_mean(values: Tensor, edge_index: Tensor) -> Tensor:  # [nodes, width], [2, edges]
    r"""The mean of what the neighbours of each node have; a node without any keeps its own.

    .. math:: \frac{1}{|N(i)|} \sum_{j \in N(i)} v_j

    Example:
        >>> values = torch.tensor([[1.0], [2.0], [6.0]])
        >>> neighbours_mean(values, torch.tensor([[1, 2], [0, 0]])).flatten().tolist()
        [4.0, 2.0, 6.0]
    """
    source, target = edge_index
    total = torch.zeros_like(values).index_add_(0, target, values[source])
    count = degrees(edge_index, len(values)).to(values)[:, None]
    return torch.where(count > 0, total / count.clamp_min(1), values)
