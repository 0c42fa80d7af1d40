"""Networks that sum, average or filter over neighbours: everything that is linear in them."""

from __future__ import annotations

import torch
from torch import nn
from torch.nn import functional as F
from torch_geometric import nn as gnn

from corpus.graphs import CLASSES, FEATURES, RELATIONS
from corpus.registry import network

HIDDEN = 16


def with_kinds(model, x, data):
    return model(x, data.edge_index, data.edge_type)


def with_weights(model, x, data):
    return model(x, data.edge_index, data.edge_weight)


class TwoLayers(nn.Module):
    """Two layers of one kind with an activation between them."""

    act = staticmethod(F.relu)

    def __init__(self, first, second):
        super().__init__()
        self.conv1, self.conv2 = first, second

    def forward(self, x, edge_index, *others):
        x = self.act(self.conv1(x, edge_index, *others))
        x = F.dropout(x, p=0.5, training=self.training)
        return self.conv2(x, edge_index, *others)


@network()
def sage_mean_normalised():
    first = gnn.SAGEConv(FEATURES, HIDDEN, normalize=True)
    return TwoLayers(first, gnn.SAGEConv(HIDDEN, CLASSES, project=True))


@network()
def sage_max():
    return TwoLayers(
        gnn.SAGEConv(FEATURES, HIDDEN, aggr="max"), gnn.SAGEConv(HIDDEN, CLASSES, aggr="max")
    )


@network()
def sage_sum():
    return TwoLayers(
        gnn.SAGEConv(FEATURES, HIDDEN, aggr="sum"), gnn.SAGEConv(HIDDEN, CLASSES, aggr="sum")
    )


@network()
def sage_of_several():
    """Mean, maximum and deviation of the neighbours side by side."""
    several = ["mean", "max", "std"]
    return TwoLayers(
        gnn.SAGEConv(FEATURES, HIDDEN, aggr=several), gnn.SAGEConv(HIDDEN, CLASSES, aggr=several)
    )


@network(call=with_weights)
def weighted_graph_conv():
    return TwoLayers(
        gnn.GraphConv(FEATURES, HIDDEN, aggr="mean"), gnn.GraphConv(HIDDEN, CLASSES, aggr="mean")
    )


@network()
def chebyshev():
    return TwoLayers(gnn.ChebConv(FEATURES, HIDDEN, K=3), gnn.ChebConv(HIDDEN, CLASSES, K=3))


@network(call=with_weights)
def adaptive_filters():
    """TAGConv with weights of the links."""
    return TwoLayers(gnn.TAGConv(FEATURES, HIDDEN, K=2), gnn.TAGConv(HIDDEN, CLASSES, K=2))


@network()
def arma():
    options = {"num_stacks": 2, "num_layers": 2, "shared_weights": True, "dropout": 0.25}
    return TwoLayers(
        gnn.ARMAConv(FEATURES, HIDDEN, **options), gnn.ARMAConv(HIDDEN, CLASSES, **options)
    )


@network()
class DeepGCN2(nn.Module):
    """GCNII: initial residual and identity, four layers deep."""

    def __init__(self):
        super().__init__()
        self.lins = nn.ModuleList([nn.Linear(FEATURES, HIDDEN), nn.Linear(HIDDEN, CLASSES)])
        self.convs = nn.ModuleList(
            gnn.GCN2Conv(HIDDEN, alpha=0.1, theta=0.5, layer=layer + 1, shared_weights=True)
            for layer in range(4)
        )

    def forward(self, x, edge_index):
        x = x_0 = self.lins[0](F.dropout(x, 0.6, training=self.training)).relu()
        for conv in self.convs:
            x = F.dropout(x, 0.6, training=self.training)
            x = conv(x, x_0, edge_index).relu()
        return self.lins[1](x).log_softmax(dim=-1)


@network()
def simple_spectral():
    return TwoLayers(
        gnn.SSGConv(FEATURES, HIDDEN, alpha=0.1, K=3), gnn.SSGConv(HIDDEN, CLASSES, alpha=0.1, K=3)
    )


@network()
class LightConvolutions(nn.Module):
    """LGConv as in LightGCN, on features, with the mean of all layers."""

    def __init__(self):
        super().__init__()
        self.lin = nn.Linear(FEATURES, CLASSES)
        self.convs = nn.ModuleList(gnn.LGConv() for _ in range(3))

    def forward(self, x, edge_index):
        x = self.lin(x)
        out = x / 4
        for conv in self.convs:
            x = conv(x, edge_index)
            out = out + x / 4
        return out


@network()
def cluster_gcn():
    return TwoLayers(
        gnn.ClusterGCNConv(FEATURES, HIDDEN, diag_lambda=0.5), gnn.ClusterGCNConv(HIDDEN, CLASSES)
    )


@network()
def local_extrema():
    return TwoLayers(gnn.LEConv(FEATURES, HIDDEN), gnn.LEConv(HIDDEN, CLASSES))


@network(call=with_kinds)
def relational():
    return TwoLayers(
        gnn.RGCNConv(FEATURES, HIDDEN, RELATIONS, num_bases=2),
        gnn.RGCNConv(HIDDEN, CLASSES, RELATIONS),
    )


@network(call=with_kinds)
def fast_relational():
    return TwoLayers(
        gnn.FastRGCNConv(FEATURES, HIDDEN, RELATIONS, num_blocks=2),
        gnn.FastRGCNConv(HIDDEN, CLASSES, RELATIONS),
    )


@network(call=with_kinds)
def film():
    """Neighbours are scaled and shifted by what the node itself says."""
    return TwoLayers(
        gnn.FiLMConv(FEATURES, HIDDEN, num_relations=RELATIONS),
        gnn.FiLMConv(HIDDEN, CLASSES, num_relations=RELATIONS, act=None),
    )


@network()
class MixHop(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = gnn.MixHopConv(FEATURES, 8, powers=[0, 1, 2])
        self.norm = nn.BatchNorm1d(24)
        self.conv2 = gnn.MixHopConv(24, 8, powers=[0, 1, 2])
        self.lin = nn.Linear(24, CLASSES)

    def forward(self, x, edge_index):
        x = torch.relu(self.norm(self.conv1(x, edge_index)))
        return self.lin(self.conv2(x, edge_index))


@network()
class IsomorphismNetwork(nn.Module):
    """GIN for nodes: perceptrons with batch norms after each sum."""

    def __init__(self):
        super().__init__()
        self.convs = nn.ModuleList(
            gnn.GINConv(self.perceptron(width), train_eps=True) for width in (FEATURES, HIDDEN)
        )
        self.classify = gnn.MLP([HIDDEN, HIDDEN, CLASSES], norm=None, dropout=0.5)

    @staticmethod
    def perceptron(width):
        return nn.Sequential(
            nn.Linear(width, HIDDEN),
            nn.BatchNorm1d(HIDDEN),
            nn.ReLU(),
            nn.Linear(HIDDEN, HIDDEN),
            nn.ReLU(),
        )

    def forward(self, x, edge_index):
        for conv in self.convs:
            x = conv(x, edge_index)
        return self.classify(x)
