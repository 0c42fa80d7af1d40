"""Networks that do what networks are not expected to do: ask, remember, change in place."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch_geometric import nn as gnn
from torch_geometric.utils import dropout_edge

from corpus.graphs import CLASSES, FEATURES
from corpus.registry import network

HIDDEN = 16


@network()
class AsksForTensor(nn.Module):
    """Takes features alone or with scales, and asks which it got."""

    def __init__(self):
        super().__init__()
        self.conv1 = gnn.SAGEConv(FEATURES, HIDDEN)
        self.conv2 = gnn.SAGEConv(HIDDEN, CLASSES)

    def forward(self, x, edge_index):
        x, scale = (x, 3.0) if isinstance(x, Tensor) else (x[0] if isinstance(x, tuple) else x, 1.0)
        x = self.conv1(x, edge_index).relu() * scale
        return self.conv2(x, edge_index)


@network()
class AsksForTraining(nn.Module):
    """PMLP: a perceptron in training, a graph network afterwards."""

    def __init__(self):
        super().__init__()
        self.lin1 = nn.Linear(FEATURES, HIDDEN)
        self.lin2 = nn.Linear(HIDDEN, CLASSES)
        self.conv = gnn.SimpleConv(aggr="mean", combine_root="self_loop")

    def forward(self, x, edge_index):
        x = self.lin1(x)
        if not self.training:
            x = self.conv(x, edge_index)
        x = F.dropout(F.relu(x), p=0.3, training=self.training)
        x = self.lin2(x)
        return x if self.training else self.conv(x, edge_index).clamp(-20, 20)


@network()
class CachesNormalisation(nn.Module):
    """Keeps the normalised matrix after its first call, as layers with cached=True do."""

    def __init__(self):
        super().__init__()
        self.conv1 = gnn.GCNConv(FEATURES, HIDDEN, cached=True)
        self.conv2 = gnn.GCNConv(HIDDEN, CLASSES, cached=True)

    def forward(self, x, edge_index):
        return self.conv2(self.conv1(x, edge_index).relu(), edge_index)


@network()
class ChangesViews(nn.Module):
    """Scales some columns of a hidden layer in place, and writes over others."""

    def __init__(self):
        super().__init__()
        self.conv1 = gnn.SAGEConv(FEATURES, HIDDEN)
        self.conv2 = gnn.SAGEConv(HIDDEN, CLASSES)

    def forward(self, x, edge_index):
        h = self.conv1(x, edge_index).clone()
        h[:, :8].mul_(0.1)
        h[:, 8:10] = 0.5
        h = h.relu_()
        return self.conv2(h, edge_index)


@network()
class RemembersHidden(nn.Module):
    """Keeps its hidden layer for whoever wants to plot it."""

    def __init__(self):
        super().__init__()
        self.conv1 = gnn.GCNConv(FEATURES, HIDDEN)
        self.conv2 = gnn.GCNConv(HIDDEN, CLASSES)
        self.h = None

    def forward(self, x, edge_index):
        self.h = self.conv1(x, edge_index).relu()
        return self.conv2(self.h, edge_index)


@network()
class DropsLinksInTraining(nn.Module):
    """DropEdge, noise on features, and a plain forward in evaluation."""

    def __init__(self):
        super().__init__()
        self.conv1 = gnn.GCNConv(FEATURES, HIDDEN)
        self.conv2 = gnn.GCNConv(HIDDEN, CLASSES)

    def forward(self, x, edge_index):
        if self.training:
            x = x + 0.1 * torch.randn_like(x)
        edge_index, _ = dropout_edge(edge_index, p=0.2, training=self.training)
        x = self.conv1(x, edge_index).relu()
        return self.conv2(F.dropout(x, 0.5, self.training), edge_index)


@network()
class SpectralWeights(nn.Module):
    """Spectral and weight norms, whose vectors move in training mode."""

    def __init__(self):
        super().__init__()
        self.lin1 = nn.utils.parametrizations.spectral_norm(nn.Linear(FEATURES, HIDDEN))
        self.conv = gnn.SAGEConv(HIDDEN, HIDDEN)
        self.lin2 = nn.utils.parametrizations.weight_norm(nn.Linear(HIDDEN, CLASSES))

    def forward(self, x, edge_index):
        x = F.dropout(self.lin1(x).relu(), p=0.2, training=self.training)
        return self.lin2(self.conv(x, edge_index).relu())


@network()
class MixedShapes(nn.Module):
    """Reshapes to heads and back, transposes, splits, stacks, broadcasts."""

    def __init__(self):
        super().__init__()
        self.lin = nn.Linear(FEATURES, HIDDEN)
        self.conv = gnn.SAGEConv(HIDDEN, HIDDEN)
        self.heads = nn.Parameter(torch.randn(4, 4) / 2)
        self.out = nn.Linear(HIDDEN + 4, CLASSES)

    def forward(self, x, edge_index):
        h = self.conv(F.relu(self.lin(x)), edge_index)
        heads = h.view(-1, 4, 4)
        heads = F.leaky_relu(heads * self.heads, 0.2)
        left, right = heads.flatten(1).chunk(2, dim=-1)
        pooled = heads.mean(dim=1)
        return self.out(torch.cat([left, right, pooled], dim=-1))


@network(
    call=lambda model, x, data: model(x=x, edge_index=data.edge_index, mask=data.chosen),
    target="chosen_y",
)
class KeywordsAndMask(nn.Module):
    """Called by keywords; a mask chooses the rows of the answer."""

    def __init__(self):
        super().__init__()
        self.conv1 = gnn.GCNConv(FEATURES, HIDDEN)
        self.conv2 = gnn.GCNConv(HIDDEN, CLASSES)

    def forward(self, x, edge_index, mask=None):
        x = self.conv2(F.relu(self.conv1(x, edge_index)), edge_index)
        return x[mask]


@network(call=lambda model, x, data: model((x, x), data.edge_index))
class TwoSides(nn.Module):
    """Source and target nodes handed over apart, as for sampled neighbours."""

    def __init__(self):
        super().__init__()
        self.conv1 = gnn.SAGEConv((FEATURES, FEATURES), HIDDEN)
        self.conv2 = gnn.SAGEConv((HIDDEN, HIDDEN), CLASSES)

    def forward(self, x, edge_index):
        x = self.conv1(x, edge_index).relu()
        return self.conv2((x, x), edge_index)
