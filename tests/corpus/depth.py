"""Networks that go deep: residuals, jumping knowledge, and norms between the layers."""

from __future__ import annotations

import torch
from torch import nn
from torch.nn import functional as F
from torch_geometric import nn as gnn

from corpus.graphs import CLASSES, FEATURES
from corpus.registry import network

HIDDEN = 16


@network()
class ResidualGCN(nn.Module):
    def __init__(self):
        super().__init__()
        self.lin = nn.Linear(FEATURES, HIDDEN)
        self.convs = nn.ModuleList(gnn.GCNConv(HIDDEN, HIDDEN) for _ in range(4))
        self.norms = nn.ModuleList(nn.BatchNorm1d(HIDDEN) for _ in range(4))
        self.out = nn.Linear(HIDDEN, CLASSES)

    def forward(self, x, edge_index):
        x = self.lin(x)
        for conv, norm in zip(self.convs, self.norms, strict=True):
            h = F.relu(norm(conv(x, edge_index)))
            x = x + F.dropout(h, p=0.2, training=self.training)
        return self.out(x)


class Jumping(nn.Module):
    """What all layers say, joined at the end."""

    def __init__(self, mode):
        super().__init__()
        widths = (FEATURES, HIDDEN, HIDDEN)
        self.convs = nn.ModuleList(gnn.GCNConv(width, HIDDEN) for width in widths)
        self.jump = gnn.JumpingKnowledge(mode, channels=HIDDEN, num_layers=2)
        self.lin = nn.Linear(3 * HIDDEN if mode == "cat" else HIDDEN, CLASSES)

    def forward(self, x, edge_index):
        xs = []
        for conv in self.convs:
            x = conv(x, edge_index).relu()
            xs += [x]
        return self.lin(self.jump(xs))


@network()
def jumping_cat():
    return Jumping("cat")


@network()
def jumping_max():
    return Jumping("max")


@network()
def jumping_lstm():
    return Jumping("lstm")


class Normed(nn.Module):
    """Two layers with a norm between them."""

    def __init__(self, norm):
        super().__init__()
        self.conv1 = gnn.SAGEConv(FEATURES, HIDDEN)
        self.norm = norm
        self.conv2 = gnn.SAGEConv(HIDDEN, CLASSES)

    def forward(self, x, edge_index):
        return self.conv2(F.relu(self.norm(self.conv1(x, edge_index))), edge_index)


@network()
def with_batch_norm():
    return Normed(gnn.BatchNorm(HIDDEN))


@network()
def with_layer_norm():
    return Normed(nn.LayerNorm(HIDDEN))


@network(alone=True)
def with_layer_norm_of_graphs():
    """torch_geometric's layer norm: over all nodes unless it is told otherwise."""
    return Normed(gnn.LayerNorm(HIDDEN))


@network(alone=True)
def with_graph_norm():
    return Normed(gnn.GraphNorm(HIDDEN))


@network(alone=True)
def with_pair_norm():
    return Normed(gnn.PairNorm())


@network()
def with_node_norm():
    return Normed(RowNorm())


class RowNorm(nn.Module):
    """Every node's vector at length one."""

    def forward(self, x):
        return F.normalize(x, p=2.0, dim=-1)


@network()
class DenseConnections(nn.Module):
    """Every layer gets what all before it said."""

    def __init__(self):
        super().__init__()
        self.conv1 = gnn.SAGEConv(FEATURES, 12)
        self.conv2 = gnn.SAGEConv(FEATURES + 12, 12)
        self.lin = nn.Linear(FEATURES + 24, CLASSES)
        self.act = nn.PReLU()

    def forward(self, x, edge_index):
        h1 = torch.cat((x, self.act(self.conv1(x, edge_index))), dim=1)
        h2 = torch.cat((h1, self.act(self.conv2(h1, edge_index))), dim=1)
        return self.lin(h2)


@network()
class HighwayGates(nn.Module):
    """A gate decides how much of the neighbours gets through."""

    def __init__(self):
        super().__init__()
        self.embed = nn.Linear(FEATURES, HIDDEN)
        self.conv = gnn.GCNConv(HIDDEN, HIDDEN)
        self.gate = nn.Linear(HIDDEN, HIDDEN)
        self.out = nn.Linear(HIDDEN, CLASSES)

    def forward(self, x, edge_index):
        x = torch.tanh(self.embed(x))
        gate = torch.sigmoid(self.gate(x))
        x = gate * F.silu(self.conv(x, edge_index)) + (1 - gate) * x
        return self.out(x)


@network()
class Unusual(nn.Module):
    """Activations that are rarer: mish, relu6, hardtanh, softsign."""

    def __init__(self):
        super().__init__()
        self.conv1 = gnn.GraphConv(FEATURES, HIDDEN, aggr="mean")
        self.conv2 = gnn.GraphConv(HIDDEN, HIDDEN, aggr="mean")
        self.lin1 = nn.Linear(HIDDEN, HIDDEN)
        self.lin2 = nn.Linear(HIDDEN, CLASSES)

    def forward(self, x, edge_index):
        x = F.mish(self.conv1(x, edge_index))
        x = F.relu6(self.conv2(x, edge_index))
        x = F.hardtanh(self.lin1(x), -2.0, 2.0)
        return F.softsign(self.lin2(x)) * 3
