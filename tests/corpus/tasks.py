"""Networks for other tasks than classes of nodes: links, values, several labels; other outputs."""

from __future__ import annotations

import torch
from torch import nn
from torch.nn import functional as F
from torch_geometric import nn as gnn

from corpus.graphs import CLASSES, FEATURES
from corpus.registry import network

HIDDEN = 16
regression = {"target": "amounts", "options": {"task": "regression"}}
scores = {"target": "linked", "options": {"task": "binary"}}


class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = gnn.GCNConv(FEATURES, HIDDEN)
        self.conv2 = gnn.GCNConv(HIDDEN, HIDDEN)

    def encode(self, x, edge_index):
        return self.conv2(self.conv1(x, edge_index).relu(), edge_index)


@network(call=lambda m, x, d: m.decode(m.encode(x, d.edge_index), d.pairs), **scores)
class DotProductOfLinks(Encoder):
    """As in the example of link prediction: one score for each pair."""

    def decode(self, z, edge_label_index):
        return (z[edge_label_index[0]] * z[edge_label_index[1]]).sum(dim=-1)


@network(call=lambda m, x, d: m(x, d.edge_index, d.pairs), **scores)
class PerceptronOfLinks(Encoder):
    def __init__(self):
        super().__init__()
        self.lin1 = nn.Linear(2 * HIDDEN, HIDDEN)
        self.lin2 = nn.Linear(HIDDEN, 1)

    def forward(self, x, edge_index, pairs):
        z = self.encode(x, edge_index)
        row, col = pairs
        z = torch.cat([z[row], z[col]], dim=-1)
        return self.lin2(self.lin1(z).relu()).view(-1)


@network(call=lambda m, x, d: m(x, d.edge_index, d.pairs), **scores)
class DistanceOfLinks(Encoder):
    """The farther apart, the less likely."""

    def forward(self, x, edge_index, pairs):
        z = F.normalize(self.encode(x, edge_index), dim=-1)
        return 2 - (z[pairs[0]] - z[pairs[1]]).square().sum(dim=-1)


@network(call=lambda m, x, d: m.encode(x, d.edge_index), target="amounts",
         options={"task": "regression"})  # fmt: skip
class GraphAutoEncoder(nn.Module):
    """An encoder inside of torch_geometric's GAE: embeddings are the answer."""

    def __init__(self):
        super().__init__()
        self.inner = gnn.GAE(gnn.GCN(FEATURES, HIDDEN, 2, 3))

    def encode(self, x, edge_index):
        return self.inner.encode(x, edge_index)


@network(**regression)
class NodeRegression(nn.Module):
    """Three values for each node."""

    def __init__(self):
        super().__init__()
        self.conv1 = gnn.SAGEConv(FEATURES, HIDDEN)
        self.conv2 = gnn.SAGEConv(HIDDEN, HIDDEN)
        self.head = nn.Sequential(nn.Linear(HIDDEN, HIDDEN), nn.SiLU(), nn.Linear(HIDDEN, 3))

    def forward(self, x, edge_index):
        x = F.silu(self.conv1(x, edge_index))
        return self.head(F.silu(self.conv2(x, edge_index)))


@network(target="flag", options={"task": "regression"})
class OneNumberSqueezed(nn.Module):
    """One number for each node, without an axis for it."""

    def __init__(self):
        super().__init__()
        self.conv1 = gnn.GCNConv(FEATURES, HIDDEN)
        self.conv2 = gnn.GCNConv(HIDDEN, 1)

    def forward(self, x, edge_index):
        return self.conv2(self.conv1(x, edge_index).relu(), edge_index).squeeze(-1)


@network(**regression)
class TwoHeads(nn.Module):
    """One head for two values, one for the third, joined."""

    def __init__(self):
        super().__init__()
        self.trunk = gnn.GraphSAGE(FEATURES, HIDDEN, 2)
        self.first = nn.Linear(HIDDEN, 2)
        self.second = nn.Linear(HIDDEN, 1)

    def forward(self, x, edge_index):
        h = torch.relu(self.trunk(x, edge_index))
        return torch.cat([self.first(h), F.softplus(self.second(h))], dim=-1)


@network(target="tags", options={"task": "multilabel"})
class SeveralLabels(nn.Module):
    """Logits of labels that do not exclude each other."""

    def __init__(self):
        super().__init__()
        self.conv1 = gnn.SAGEConv(FEATURES, HIDDEN)
        self.conv2 = gnn.SAGEConv(HIDDEN, CLASSES)

    def forward(self, x, edge_index):
        return self.conv2(F.elu(self.conv1(x, edge_index)), edge_index)


@network(target="flag", options={"task": "binary"})
class YesOrNo(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = gnn.GCNConv(FEATURES, HIDDEN)
        self.lin = nn.Linear(HIDDEN, 1)

    def forward(self, x, edge_index):
        return self.lin(self.conv(x, edge_index).relu())


@network(picks=0)
class ReturnsTuple(nn.Module):
    """Logits, and the embedding that they came from."""

    def __init__(self):
        super().__init__()
        self.conv1 = gnn.GCNConv(FEATURES, HIDDEN)
        self.conv2 = gnn.GCNConv(HIDDEN, HIDDEN)
        self.classifier = nn.Linear(HIDDEN, CLASSES)

    def forward(self, x, edge_index):
        h = self.conv1(x, edge_index).tanh()
        h = self.conv2(h, edge_index).tanh()
        return self.classifier(h), h


@network(picks="logits")
class ReturnsDict(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = gnn.SAGEConv(FEATURES, HIDDEN)
        self.lin = nn.Linear(HIDDEN, CLASSES)

    def forward(self, x, edge_index):
        h = self.conv(x, edge_index).relu()
        return {"embedding": h, "logits": self.lin(h)}
