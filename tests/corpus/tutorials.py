"""Networks as tutorials write them: two layers, an activation, dropout, a softmax at the end."""

from __future__ import annotations

from itertools import pairwise

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch_geometric import nn as gnn

from corpus.graphs import CLASSES, FEATURES
from corpus.registry import network

HIDDEN = 16


@network(takes_data=True)
class TutorialOnData(nn.Module):
    """The first network of torch_geometric's own introduction."""

    def __init__(self) -> None:
        super().__init__()
        self.conv1 = gnn.GCNConv(FEATURES, HIDDEN)
        self.conv2 = gnn.GCNConv(HIDDEN, CLASSES)

    def forward(self, data):
        x, edge_index = data.x, data.edge_index
        x = self.conv1(x, edge_index)
        x = F.relu(x)
        x = F.dropout(x, training=self.training)
        x = self.conv2(x, edge_index)
        return F.log_softmax(x, dim=1)


@network()
class LogSoftmaxGCN(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv1 = gnn.GCNConv(FEATURES, HIDDEN)
        self.conv2 = gnn.GCNConv(HIDDEN, CLASSES)

    def forward(self, x, edge_index):
        x = F.dropout(x, p=0.3, training=self.training)
        x = self.conv1(x, edge_index).relu()
        x = F.dropout(x, p=0.3, training=self.training)
        return F.log_softmax(self.conv2(x, edge_index), dim=-1)


@network()
class SoftmaxSAGE(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv1 = gnn.SAGEConv(FEATURES, HIDDEN)
        self.conv2 = gnn.SAGEConv(HIDDEN, CLASSES)

    def forward(self, x, edge_index):
        x = torch.tanh(self.conv1(x, edge_index))
        return torch.softmax(self.conv2(x, edge_index), dim=1)


@network()
class LogitsGCN(nn.Module):
    """Modules for everything, as in Colab notebooks."""

    def __init__(self) -> None:
        super().__init__()
        self.conv1 = gnn.GCNConv(FEATURES, HIDDEN)
        self.act = nn.ELU()
        self.drop = nn.Dropout(0.5)
        self.conv2 = gnn.GCNConv(HIDDEN, HIDDEN)
        self.out = nn.Linear(HIDDEN, CLASSES)

    def forward(self, x, edge_index):
        h = self.act(self.conv1(x, edge_index))
        h = self.drop(h)
        h = self.act(self.conv2(h, edge_index))
        return self.out(h)


@network(call=lambda model, x, data: model(x, data.edge_index))  # though the graph has weights
def ready_made_gcn() -> nn.Module:
    return gnn.GCN(FEATURES, HIDDEN, num_layers=2, out_channels=CLASSES, dropout=0.2)


@network()
def ready_made_sage_with_norm() -> nn.Module:
    return gnn.GraphSAGE(FEATURES, HIDDEN, 3, CLASSES, norm="batch_norm", jk="cat")


@network(call=lambda model, x, data: model(x, data.edge_index))  # though links have attributes
def ready_made_gat() -> nn.Module:
    return gnn.GAT(FEATURES, HIDDEN, 2, CLASSES, heads=4, act="elu")


@network()
def sequential_of_layers() -> nn.Module:
    layers = [
        (gnn.GCNConv(FEATURES, HIDDEN), "x, edge_index -> x"),
        nn.ReLU(inplace=True),
        (gnn.SAGEConv(HIDDEN, HIDDEN), "x, edge_index -> x"),
        nn.ReLU(inplace=True),
        nn.Linear(HIDDEN, CLASSES),
    ]
    return gnn.Sequential("x, edge_index", layers)


@network(call=lambda model, x, data: model(x))
def plain_mlp() -> nn.Module:
    """No graph at all: the baseline of every comparison."""
    return nn.Sequential(
        nn.Linear(FEATURES, HIDDEN), nn.ReLU(), nn.Dropout(0.5), nn.Linear(HIDDEN, CLASSES)
    )


@network(call=lambda model, x, data: model(x, data.edge_index, data.edge_weight))
class WeightedGCN(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        widths = pairwise([FEATURES, HIDDEN, HIDDEN, CLASSES])
        self.convs = nn.ModuleList(gnn.GCNConv(*width) for width in widths)

    def forward(self, x, edge_index, edge_weight=None):
        for conv in self.convs[:-1]:
            x = conv(x, edge_index, edge_weight).relu()
        return self.convs[-1](x, edge_index, edge_weight)


@network()
class EncoderThenSAGE(nn.Module):
    """A loop over a list of layers with a dense layer before and after."""

    def __init__(self, layers: int = 3) -> None:
        super().__init__()
        self.lin_in = nn.Linear(FEATURES, HIDDEN)
        self.convs = nn.ModuleList(gnn.SAGEConv(HIDDEN, HIDDEN) for _ in range(layers))
        self.lin_out = nn.Linear(HIDDEN, CLASSES)

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        x = F.gelu(self.lin_in(x))
        for conv in self.convs:
            x = F.gelu(conv(x, edge_index))
            x = F.dropout(x, p=0.1, training=self.training)
        return self.lin_out(x)


@network()
class CachedSGC(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv = gnn.SGConv(FEATURES, CLASSES, K=2, cached=False)

    def forward(self, x, edge_index):
        return F.log_softmax(self.conv(x, edge_index), dim=1)


@network()
class PredictThenPropagate(nn.Module):
    """APPNP: a perceptron first, then ten steps over the links."""

    def __init__(self) -> None:
        super().__init__()
        self.lin1 = nn.Linear(FEATURES, HIDDEN)
        self.lin2 = nn.Linear(HIDDEN, CLASSES)
        self.prop = gnn.APPNP(K=10, alpha=0.1)

    def forward(self, x, edge_index):
        x = F.dropout(x, p=0.5, training=self.training)
        x = F.relu(self.lin1(x))
        x = F.dropout(x, p=0.5, training=self.training)
        x = self.prop(self.lin2(x), edge_index)
        return F.log_softmax(x, dim=1)
