"""Networks that look at what belongs to a link, or weigh, gate and compare its two ends."""

from __future__ import annotations

import torch
from torch import nn
from torch.nn import functional as F
from torch_geometric import nn as gnn
from torch_geometric.utils import degree

from corpus.graphs import ATTRIBUTES, CLASSES, FEATURES, papers
from corpus.neighbours import TwoLayers
from corpus.registry import network

HIDDEN = 16


def with_attributes(model, x, data):
    return model(x, data.edge_index, data.edge_attr)


def on_molecules(model, x, data):
    return model(x, data.edge_index, data.edge_attr, data.batch)


def perceptron(*widths):
    return gnn.MLP(list(widths), norm=None)


@network(graph="molecules", target="amounts", call=on_molecules, options={"task": "regression"})
class GINEOnMolecules(nn.Module):
    def __init__(self):
        super().__init__()
        self.convs = nn.ModuleList(
            gnn.GINEConv(perceptron(width, HIDDEN, HIDDEN), edge_dim=ATTRIBUTES)
            for width in (FEATURES, HIDDEN)
        )
        self.lin = nn.Linear(HIDDEN, 2)

    def forward(self, x, edge_index, edge_attr, batch):
        for conv in self.convs:
            x = conv(x, edge_index, edge_attr).relu()
        return self.lin(gnn.global_add_pool(x, batch))


@network(graph="molecules", target="amounts", call=on_molecules, options={"task": "regression"})
class MessagePassingOnMolecules(nn.Module):
    """NNConv and a GRU, as in neural message passing for chemistry."""

    def __init__(self):
        super().__init__()
        self.lin0 = nn.Linear(FEATURES, 8)
        self.conv = gnn.NNConv(8, 8, perceptron(ATTRIBUTES, 16, 64), aggr="mean")
        self.gru = nn.GRU(8, 8)
        self.lin1 = nn.Linear(8, 2)

    def forward(self, x, edge_index, edge_attr, batch):
        out = F.relu(self.lin0(x))
        h = out.unsqueeze(0)
        for _ in range(2):
            m = F.relu(self.conv(out, edge_index, edge_attr))
            out, h = self.gru(m.unsqueeze(0), h)
            out = out.squeeze(0)
        return self.lin1(gnn.global_mean_pool(out, batch))


@network(call=with_attributes)
def continuous_kernels():
    """NNConv: a weight matrix for every link, from its attributes."""
    return TwoLayers(
        gnn.NNConv(FEATURES, 8, perceptron(ATTRIBUTES, 8, FEATURES * 8), aggr="mean"),
        gnn.NNConv(8, CLASSES, perceptron(ATTRIBUTES, 8, 8 * CLASSES), aggr="mean"),
    )


@network(graph="molecules", call=on_molecules)
class CrystalGraph(nn.Module):
    """CGConv: gates from both ends and the bond."""

    def __init__(self):
        super().__init__()
        self.convs = nn.ModuleList(gnn.CGConv(FEATURES, dim=ATTRIBUTES) for _ in range(2))
        self.lin = nn.Linear(FEATURES, CLASSES)

    def forward(self, x, edge_index, edge_attr, batch):
        for conv in self.convs:
            x = conv(x, edge_index, edge_attr)
        return self.lin(F.softplus(gnn.global_mean_pool(x, batch)))


@network(call=with_attributes)
class DeepGENConv(nn.Module):
    """DeeperGCN: pre-activation residuals around softmax aggregation."""

    def __init__(self):
        super().__init__()
        self.node = nn.Linear(FEATURES, HIDDEN)
        self.edge = nn.Linear(ATTRIBUTES, HIDDEN)
        self.layers = nn.ModuleList(self.layer() for _ in range(3))
        self.lin = nn.Linear(HIDDEN, CLASSES)

    @staticmethod
    def layer():
        conv = gnn.GENConv(HIDDEN, HIDDEN, aggr="softmax", t=1.0, learn_t=True, num_layers=2)
        norm, act = nn.LayerNorm(HIDDEN), nn.ReLU(inplace=True)
        return gnn.DeepGCNLayer(conv, norm, act, block="res+", dropout=0.1)

    def forward(self, x, edge_index, edge_attr):
        x, edge_attr = self.node(x), self.edge(edge_attr)
        x = self.layers[0].conv(x, edge_index, edge_attr)
        for layer in self.layers[1:]:
            x = layer(x, edge_index, edge_attr)
        return self.lin(self.layers[0].act(self.layers[0].norm(x)))


@network()
def gen_conv_by_powers():
    return TwoLayers(
        gnn.GENConv(FEATURES, HIDDEN, aggr="powermean"), gnn.GENConv(HIDDEN, CLASSES, aggr="add")
    )


def degrees():
    data = papers()
    return degree(data.edge_index[1], data.num_nodes, dtype=torch.long).bincount()


@network(call=with_attributes)
class PrincipalNeighbours(nn.Module):
    """PNA: four aggregations, three scalers by the degree."""

    def __init__(self):
        super().__init__()
        options = {
            "aggregators": ["mean", "min", "max", "std"],
            "scalers": ["identity", "amplification", "attenuation"],
            "deg": degrees(),
            "edge_dim": ATTRIBUTES,
        }
        self.conv1 = gnn.PNAConv(FEATURES, HIDDEN, towers=2, **options)
        self.norm = gnn.BatchNorm(HIDDEN)
        self.conv2 = gnn.PNAConv(HIDDEN, CLASSES, **options)

    def forward(self, x, edge_index, edge_attr):
        x = F.relu(self.norm(self.conv1(x, edge_index, edge_attr)))
        return self.conv2(x, edge_index, edge_attr)


@network()
def edge_conv_max():
    """As for point clouds: the largest over neighbours of a perceptron of both ends."""
    return TwoLayers(
        gnn.EdgeConv(perceptron(2 * FEATURES, HIDDEN, HIDDEN)),
        gnn.EdgeConv(perceptron(2 * HIDDEN, HIDDEN, CLASSES)),
    )


@network()
def edge_conv_mean():
    return TwoLayers(
        gnn.EdgeConv(perceptron(2 * FEATURES, HIDDEN, HIDDEN), aggr="mean"),
        gnn.EdgeConv(perceptron(2 * HIDDEN, HIDDEN, CLASSES), aggr="mean"),
    )


@network()
class GatedGraph(nn.Module):
    """Steps of a GRU over neighbours."""

    def __init__(self):
        super().__init__()
        self.conv = gnn.GatedGraphConv(HIDDEN, num_layers=2)
        self.lin = nn.Linear(HIDDEN, CLASSES)

    def forward(self, x, edge_index):
        return self.lin(F.relu(self.conv(x, edge_index)))


@network(call=with_attributes)
def residual_gates():
    return TwoLayers(
        gnn.ResGatedGraphConv(FEATURES, HIDDEN, edge_dim=ATTRIBUTES),
        gnn.ResGatedGraphConv(HIDDEN, CLASSES, edge_dim=ATTRIBUTES),
    )


@network(call=with_attributes)
def gaussian_mixture():
    return TwoLayers(
        gnn.GMMConv(FEATURES, HIDDEN, dim=ATTRIBUTES, kernel_size=3),
        gnn.GMMConv(HIDDEN, CLASSES, dim=ATTRIBUTES, kernel_size=3),
    )


@network(call=lambda model, x, data: model(x, data.pos, data.edge_index))
class PointCloud(nn.Module):
    """PointNet++: positions of both ends in every message."""

    def __init__(self):
        super().__init__()
        self.conv1 = gnn.PointNetConv(perceptron(FEATURES + 3, HIDDEN), perceptron(HIDDEN, HIDDEN))
        self.conv2 = gnn.PointNetConv(perceptron(HIDDEN + 3, HIDDEN))
        self.lin = nn.Linear(HIDDEN, CLASSES)

    def forward(self, x, pos, edge_index):
        x = self.conv1(x, pos, edge_index).relu()
        x = self.conv2(x, pos, edge_index).relu()
        return self.lin(x)
