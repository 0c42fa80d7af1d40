"""A small graph that is easy to learn."""

import copy

import torch
from torch_geometric.data import Data


def two_groups(nodes=80, links=300):
    """Nodes of two groups; links stay within a group and features point to it."""
    draw = torch.Generator().manual_seed(3)
    y, part = torch.arange(nodes) % 2, torch.arange(nodes) % 5
    ends = torch.randint(nodes // 2, (2, links), generator=draw) * 2 + torch.arange(links) % 2
    return Data(
        x=torch.randn(nodes, 6, generator=draw) + y[:, None],
        edge_index=ends,
        y=y,
        train_mask=part < 3,
        val_mask=part == 3,
        test_mask=part == 4,
    )


def changed(graph, **values):
    other = copy.copy(graph)
    other.update(values)
    return other
