"""Networks of each kind of layer, the same in every process."""

import torch
from torch import nn
from torch.nn import functional as F
from torch_geometric import nn as gnn

HIDDEN, CLASSES = 4, 3


def gin(ins, outs):
    return gnn.GINConv(nn.Sequential(nn.Linear(ins, 4), nn.ReLU(), nn.Linear(4, outs)))


LAYERS = {
    "SAGEConv": gnn.SAGEConv,
    "SAGEConv max": lambda ins, outs: gnn.SAGEConv(ins, outs, aggr="max"),
    "GCNConv": gnn.GCNConv,
    "GraphConv": gnn.GraphConv,
    "GINConv": gin,
    "GATConv": lambda ins, outs: gnn.GATConv(ins, outs, dropout=0.2),
    "GATv2Conv": gnn.GATv2Conv,
    "SGConv": lambda ins, outs: gnn.SGConv(ins, outs, K=2),
}


class Net(nn.Module):
    def __init__(self, kind, features=5):
        super().__init__()
        torch.manual_seed(0)
        self.one = LAYERS[kind](features, HIDDEN)
        self.two = LAYERS[kind](HIDDEN, HIDDEN)
        self.three = LAYERS[kind](HIDDEN, CLASSES)
        self.double()

    def forward(self, x, edge_index):
        hidden = F.dropout(self.one(x, edge_index).relu(), 0.3, self.training)
        return self.three(self.two(hidden, edge_index).relu(), edge_index)
