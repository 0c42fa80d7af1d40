"""Networks that answer for whole graphs: batches, readouts, and pooling that drops nodes."""

from __future__ import annotations

import torch
from torch import nn
from torch.nn import functional as F
from torch_geometric import nn as gnn

from corpus.graphs import CLASSES, FEATURES
from corpus.registry import network

HIDDEN = 16


def on_batch(model, x, data):
    return model(x, data.edge_index, data.batch)


molecules = {"graph": "molecules", "call": on_batch}
regression = {**molecules, "target": "amounts", "options": {"task": "regression"}}


class Pooled(nn.Module):
    """Layers, a readout, a dense layer: the tutorial on classifying graphs."""

    def __init__(self, readout, outputs=CLASSES, factor=1):
        super().__init__()
        self.conv1 = gnn.GCNConv(FEATURES, HIDDEN)
        self.conv2 = gnn.GraphConv(HIDDEN, HIDDEN)
        self.readout = readout
        self.lin = nn.Linear(factor * HIDDEN, outputs)

    def forward(self, x, edge_index, batch):
        x = self.conv1(x, edge_index).relu()
        x = self.conv2(x, edge_index).relu()
        x = self.readout(x, batch)
        x = F.dropout(x, p=0.5, training=self.training)
        return self.lin(x)


@network(**molecules)
def mean_pooled():
    return Pooled(gnn.global_mean_pool)


@network(**regression)
def sum_pooled():
    return Pooled(gnn.global_add_pool, outputs=2)


@network(**molecules)
def max_pooled():
    return Pooled(gnn.global_max_pool)


@network(**molecules)
def attention_pooled():
    gate = nn.Sequential(nn.Linear(HIDDEN, HIDDEN), nn.ReLU(), nn.Linear(HIDDEN, 1))
    return Pooled(gnn.AttentionalAggregation(gate))


@network(**regression)
def set_to_set():
    return Pooled(gnn.Set2Set(HIDDEN, processing_steps=2), outputs=2, factor=2)


@network(**regression)
class DeepSets(nn.Module):
    """Mean and maximum of a graph side by side, without any link."""

    def __init__(self):
        super().__init__()
        self.phi = nn.Sequential(nn.Linear(FEATURES, HIDDEN), nn.Tanh())
        self.rho = nn.Linear(2 * HIDDEN, 2)

    def forward(self, x, edge_index, batch):
        x = self.phi(x)
        both = [gnn.global_mean_pool(x, batch), gnn.global_max_pool(x, batch)]
        return self.rho(torch.cat(both, dim=1))


class Dropping(nn.Module):
    """Hierarchical pooling: layers, then only some of the nodes go on."""

    def __init__(self, pool):
        super().__init__()
        self.conv1 = gnn.GraphConv(FEATURES, HIDDEN)
        self.pool1 = pool
        self.conv2 = gnn.GraphConv(HIDDEN, HIDDEN)
        self.lin = nn.Linear(HIDDEN, CLASSES)

    def forward(self, x, edge_index, batch):
        x = F.relu(self.conv1(x, edge_index))
        x, edge_index, _, batch, _, _ = self.pool1(x, edge_index, None, batch)
        x = F.relu(self.conv2(x, edge_index))
        return self.lin(gnn.global_mean_pool(x, batch))


@network(**molecules)
def top_k():
    return Dropping(gnn.TopKPooling(HIDDEN, ratio=0.8))


@network(**molecules)
def self_attention_pooling():
    return Dropping(gnn.SAGPooling(HIDDEN, ratio=0.7))


@network(graph="molecules", takes_data=True)
class TutorialOnBatch(nn.Module):
    """A batch as a loader hands it over."""

    def __init__(self):
        super().__init__()
        self.conv1 = gnn.GCNConv(FEATURES, HIDDEN)
        self.conv2 = gnn.GCNConv(HIDDEN, HIDDEN)
        self.lin = nn.Linear(HIDDEN, CLASSES)

    def forward(self, data):
        x, edge_index, batch = data.x, data.edge_index, data.batch
        x = self.conv1(x, edge_index).relu()
        x = self.conv2(x, edge_index).relu()
        return F.log_softmax(self.lin(gnn.global_mean_pool(x, batch)), dim=-1)


@network(**regression)
class EveryLayerRead(nn.Module):
    """GIN with a readout after every layer, joined."""

    def __init__(self):
        super().__init__()
        self.convs = nn.ModuleList(
            gnn.GINConv(gnn.MLP([width, HIDDEN, HIDDEN], norm=None)) for width in (FEATURES, HIDDEN)
        )
        self.lin = nn.Linear(2 * HIDDEN, 2)

    def forward(self, x, edge_index, batch):
        read = []
        for conv in self.convs:
            x = conv(x, edge_index).relu()
            read.append(gnn.global_mean_pool(x, batch))
        return self.lin(torch.cat(read, dim=1))


@network(**molecules)
class NormedPerGraph(nn.Module):
    """Graph norms that know which node is in which graph."""

    def __init__(self):
        super().__init__()
        self.conv1 = gnn.GraphConv(FEATURES, HIDDEN)
        self.norm1 = gnn.GraphNorm(HIDDEN)
        self.conv2 = gnn.GraphConv(HIDDEN, HIDDEN)
        self.lin = nn.Linear(HIDDEN, CLASSES)

    def forward(self, x, edge_index, batch):
        x = F.relu(self.norm1(self.conv1(x, edge_index), batch))
        x = F.relu(self.conv2(x, edge_index))
        return self.lin(gnn.global_mean_pool(x, batch))


@network(call=lambda model, x, data: model(x, data.edge_index), alone=True)
class GraphContext(nn.Module):
    """What all nodes say on average is given to each of them."""

    def __init__(self):
        super().__init__()
        self.conv = gnn.GCNConv(FEATURES, HIDDEN)
        self.lin = nn.Linear(2 * HIDDEN, CLASSES)

    def forward(self, x, edge_index):
        x = self.conv(x, edge_index).relu()
        context = x.mean(dim=0, keepdim=True).expand_as(x)
        return self.lin(torch.cat([x, context], dim=1))
