"""Networks whose neighbours are weighted by what they say: graph attention of all kinds."""

from __future__ import annotations

from torch import nn
from torch.nn import functional as F
from torch_geometric import nn as gnn

from corpus.graphs import ATTRIBUTES, CLASSES, FEATURES
from corpus.registry import network

HIDDEN, HEADS = 4, 4


def with_attributes(model, x, data):
    return model(x, data.edge_index, data.edge_attr)


@network()
class PaperGAT(nn.Module):
    """As in the paper on graph attention: dropout on features and on attention weights."""

    def __init__(self):
        super().__init__()
        self.conv1 = gnn.GATConv(FEATURES, HIDDEN, heads=HEADS, dropout=0.6)
        self.conv2 = gnn.GATConv(HIDDEN * HEADS, CLASSES, heads=1, concat=False, dropout=0.6)

    def forward(self, x, edge_index):
        x = F.dropout(x, p=0.6, training=self.training)
        x = F.elu(self.conv1(x, edge_index))
        x = F.dropout(x, p=0.6, training=self.training)
        return F.log_softmax(self.conv2(x, edge_index), dim=-1)


@network()
class GATWithSkips(nn.Module):
    """A dense layer beside every attention, heads averaged at the end (as for protein graphs)."""

    def __init__(self):
        super().__init__()
        self.conv1 = gnn.GATConv(FEATURES, HIDDEN, heads=HEADS)
        self.lin1 = nn.Linear(FEATURES, HIDDEN * HEADS)
        self.conv2 = gnn.GATConv(HIDDEN * HEADS, CLASSES, heads=6, concat=False)
        self.lin2 = nn.Linear(HIDDEN * HEADS, CLASSES)

    def forward(self, x, edge_index):
        x = F.elu(self.conv1(x, edge_index) + self.lin1(x))
        return self.conv2(x, edge_index) + self.lin2(x)


@network(call=with_attributes)
class GATOnAttributes(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = gnn.GATConv(FEATURES, HIDDEN, heads=2, edge_dim=ATTRIBUTES)
        self.conv2 = gnn.GATConv(HIDDEN * 2, CLASSES, edge_dim=ATTRIBUTES)

    def forward(self, x, edge_index, edge_attr):
        x = self.conv1(x, edge_index, edge_attr).relu()
        return self.conv2(x, edge_index, edge_attr)


@network()
class GATv2(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = gnn.GATv2Conv(FEATURES, HIDDEN, heads=HEADS)
        self.conv2 = gnn.GATv2Conv(HIDDEN * HEADS, CLASSES, heads=1)

    def forward(self, x, edge_index):
        h = F.dropout(x, p=0.6, training=self.training)
        h = F.elu(self.conv1(h, edge_index))
        h = F.dropout(h, p=0.6, training=self.training)
        h = self.conv2(h, edge_index)
        return F.log_softmax(h, dim=1)


@network(call=with_attributes)
class GATv2OnAttributes(nn.Module):
    """Shared weights, no loops, averaged heads, residual of the layer itself."""

    def __init__(self):
        super().__init__()
        options = {"edge_dim": ATTRIBUTES, "add_self_loops": False, "share_weights": True}
        self.conv1 = gnn.GATv2Conv(FEATURES, 8, heads=2, residual=True, **options)
        self.conv2 = gnn.GATv2Conv(16, CLASSES, heads=2, concat=False, **options)

    def forward(self, x, edge_index, edge_attr):
        x = F.leaky_relu(self.conv1(x, edge_index, edge_attr))
        return self.conv2(x, edge_index, edge_attr)


@network()
class GraphTransformer(nn.Module):
    """With a gate between a node's own value and that of its neighbours (beta)."""

    def __init__(self):
        super().__init__()
        self.conv1 = gnn.TransformerConv(FEATURES, HIDDEN, heads=HEADS, beta=True, dropout=0.1)
        self.norm1 = nn.LayerNorm(HIDDEN * HEADS)
        self.conv2 = gnn.TransformerConv(
            HIDDEN * HEADS, CLASSES, heads=HEADS, concat=False, beta=True
        )

    def forward(self, x, edge_index):
        x = self.norm1(self.conv1(x, edge_index)).relu()
        return self.conv2(x, edge_index)


@network(call=with_attributes)
class TransformerOnAttributes(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = gnn.TransformerConv(FEATURES, HIDDEN, heads=2, edge_dim=ATTRIBUTES)
        self.conv2 = gnn.TransformerConv(HIDDEN * 2, CLASSES, edge_dim=ATTRIBUTES)

    def forward(self, x, edge_index, edge_attr):
        x = F.relu(self.conv1(x, edge_index, edge_attr))
        return self.conv2(x, edge_index, edge_attr)


@network()
class SuperGAT(nn.Module):
    def __init__(self):
        super().__init__()
        options = {"dropout": 0.6, "attention_type": "MX", "is_undirected": True}
        self.conv1 = gnn.SuperGATConv(FEATURES, HIDDEN, heads=HEADS, **options)
        self.conv2 = gnn.SuperGATConv(HIDDEN * HEADS, CLASSES, heads=2, concat=False, **options)

    def forward(self, x, edge_index):
        x = F.elu(self.conv1(x, edge_index))
        return F.log_softmax(self.conv2(x, edge_index), dim=-1)


@network()
class AGNN(nn.Module):
    def __init__(self):
        super().__init__()
        self.lin1 = nn.Linear(FEATURES, 16)
        self.prop1 = gnn.AGNNConv(requires_grad=False)
        self.prop2 = gnn.AGNNConv(requires_grad=True)
        self.lin2 = nn.Linear(16, CLASSES)

    def forward(self, x, edge_index):
        x = F.dropout(x, training=self.training)
        x = F.relu(self.lin1(x))
        x = self.prop1(x, edge_index)
        x = self.prop2(x, edge_index)
        x = F.dropout(x, training=self.training)
        return F.log_softmax(self.lin2(x), dim=1)


@network()
class FrequencyAdaptive(nn.Module):
    """FAGCN: signed attention beside what the first layer said."""

    def __init__(self):
        super().__init__()
        self.lin_in = nn.Linear(FEATURES, 16)
        self.convs = nn.ModuleList(gnn.FAConv(16, eps=0.3) for _ in range(2))
        self.lin_out = nn.Linear(16, CLASSES)

    def forward(self, x, edge_index):
        x = x_0 = F.relu(self.lin_in(x))
        for conv in self.convs:
            x = conv(x, x_0, edge_index)
        return self.lin_out(x)


@network()
class SoftmaxOverNeighbours(nn.Module):
    """The softmax as an aggregation, with a temperature that is learned."""

    def __init__(self):
        super().__init__()
        softmax = {"aggr": "softmax", "aggr_kwargs": {"learn": True}}
        self.conv1 = gnn.SAGEConv(FEATURES, 16, **softmax)
        self.conv2 = gnn.SAGEConv(16, CLASSES, **softmax)

    def forward(self, x, edge_index):
        return self.conv2(self.conv1(x, edge_index).relu(), edge_index)


@network(graph="molecules", call=lambda m, x, d: m(x, d.edge_index, d.edge_attr, d.batch))
class AttentionOnMolecules(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = gnn.GATv2Conv(FEATURES, 8, heads=2, edge_dim=ATTRIBUTES)
        self.conv2 = gnn.GATv2Conv(16, 16, edge_dim=ATTRIBUTES)
        self.lin = nn.Linear(16, CLASSES)

    def forward(self, x, edge_index, edge_attr, batch):
        x = F.elu(self.conv1(x, edge_index, edge_attr))
        x = F.elu(self.conv2(x, edge_index, edge_attr))
        return self.lin(gnn.global_mean_pool(x, batch))
