"""Small graphs and networks in the styles that people write."""

import torch
import torch_geometric.nn as gnn
from torch import nn
from torch.nn import functional as F
from torch_geometric.data import Data


def ring(nodes=6, features=4, dtype=torch.float64):
    generator = torch.Generator().manual_seed(0)
    ends = torch.arange(nodes)
    there = torch.stack([ends, (ends + 1) % nodes])
    return Data(
        x=torch.randn(nodes, features, generator=generator).to(dtype),
        edge_index=torch.cat([there, there.flip(0)], 1),
        y=ends % 3,
    )


def noisy_ring(**kwargs):
    graph = ring(**kwargs)
    graph.x_var = 0.3
    return graph


class Functional(nn.Module):
    """Dropout as most people write it."""

    def __init__(self, rate=0.4):
        super().__init__()
        self.first, self.second, self.rate = gnn.SAGEConv(4, 8), gnn.GCNConv(8, 3), rate

    def forward(self, x, edge_index):
        x = F.relu(self.first(x, edge_index))
        x = F.dropout(x, self.rate, training=self.training)
        return self.second(x, edge_index)


class WithModules(Functional):
    """The same network with modules."""

    def __init__(self, rate=0.4):
        super().__init__(rate)
        self.act, self.drop = nn.ReLU(inplace=True), nn.Dropout(rate)

    def forward(self, x, edge_index):
        return self.second(self.drop(self.act(self.first(x, edge_index))), edge_index)


def made(build, dtype=torch.float64, seed=1):
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        return build().to(dtype).eval()


#: Of the two links of the tiny graph.
CHANCES = 0.6, 0.9


def tiny_graph():
    """A path of three nodes with two uncertain links; only the feature of node 0 is noisy."""
    a, b = CHANCES
    return Data(
        x=torch.tensor([[0.3], [-1.0], [0.8]]).double(),
        x_var=torch.tensor([[0.5], [0.0], [0.0]]).double(),
        edge_index=torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]]),
        edge_prob=torch.tensor([a, a, b, b]).double(),
    )
