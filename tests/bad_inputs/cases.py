"""A graph, a network and calls that have nothing wrong with them but what a test changes."""

import pytest
import torch
import torch_geometric.nn as gnn
from torch import nn
from torch_geometric.data import Data

import varigraph as vg
from varigraph.errors import VarigraphError

NODES, FEATURES, LINKS = 8, 4, 16
METHODS = ["auto", "first-order", "covariance", "diagonal", "sampled"]


def ring(**fields):
    """A ring of eight nodes, as a graph that has nothing wrong with it but these fields."""
    node = torch.arange(NODES)
    links = torch.stack([node, (node + 1) % NODES])
    draw = torch.Generator().manual_seed(0)
    graph = Data(
        x=torch.rand(NODES, FEATURES, generator=draw),
        edge_index=torch.cat([links, links.flip(0)], dim=1),
        x_var=0.01,
        y=node % 3,
        train_mask=node < 4,
        val_mask=node >= 4,
    )
    for name, value in fields.items():
        graph[name] = value
    return graph


def network(**options):
    torch.manual_seed(0)
    return gnn.GraphSAGE(FEATURES, 6, 2, 3, **{"dropout": 0.5, **options}).eval()


def predict(model=None, graph=None, **options):
    model = network() if model is None else model
    return vg.predict(model, graph or ring(), **{"samples": 4, **options})


def refusal(call):
    """The error of ours that a call ends in."""
    with pytest.raises(VarigraphError) as caught:
        call()
    assert caught.value.remedy
    return caught.value


class Answering(nn.Module):
    """A network whose answer is made into something else."""

    def __init__(self, change):
        super().__init__()
        self.inner, self.change = network(), change

    def forward(self, x, edge_index):
        return self.change(self.inner(x, edge_index))
