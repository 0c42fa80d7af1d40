"""Networks with layers that their authors wrote themselves."""

from __future__ import annotations

import torch
from torch import nn
from torch.nn import functional as F
from torch_geometric import nn as gnn
from torch_geometric.utils import add_self_loops, degree, scatter, softmax

from corpus.graphs import ATTRIBUTES, CLASSES, FEATURES
from corpus.neighbours import TwoLayers
from corpus.registry import network

HIDDEN = 16


class OwnGCN(gnn.MessagePassing):
    """From the tutorial on message passing: loops, degrees and norms by hand."""

    def __init__(self, in_channels, out_channels):
        super().__init__(aggr="add")
        self.lin = nn.Linear(in_channels, out_channels, bias=False)
        self.bias = nn.Parameter(torch.zeros(out_channels))

    def forward(self, x, edge_index):
        edge_index, _ = add_self_loops(edge_index, num_nodes=x.size(0))
        x = self.lin(x)
        row, col = edge_index
        deg = degree(col, x.size(0), dtype=x.dtype)
        deg_inv_sqrt = deg.pow(-0.5)
        deg_inv_sqrt[deg_inv_sqrt == float("inf")] = 0
        norm = deg_inv_sqrt[row] * deg_inv_sqrt[col]
        return self.propagate(edge_index, x=x, norm=norm) + self.bias

    def message(self, x_j, norm):
        return norm.view(-1, 1) * x_j


@network()
def own_gcn():
    return TwoLayers(OwnGCN(FEATURES, HIDDEN), OwnGCN(HIDDEN, CLASSES))


class OwnEdgeConv(gnn.MessagePassing):
    """A perceptron of a node and of how its neighbour differs from it."""

    def __init__(self, in_channels, out_channels, aggr):
        super().__init__(aggr=aggr)
        self.mlp = nn.Sequential(
            nn.Linear(2 * in_channels, HIDDEN), nn.ReLU(), nn.Linear(HIDDEN, out_channels)
        )

    def forward(self, x, edge_index):
        return self.propagate(edge_index, x=x)

    def message(self, x_i, x_j):
        return self.mlp(torch.cat([x_i, x_j - x_i], dim=1))


@network()
def own_edge_conv_mean():
    return TwoLayers(OwnEdgeConv(FEATURES, HIDDEN, "mean"), OwnEdgeConv(HIDDEN, CLASSES, "mean"))


@network()
def own_edge_conv_max():
    return TwoLayers(OwnEdgeConv(FEATURES, HIDDEN, "max"), OwnEdgeConv(HIDDEN, CLASSES, "max"))


class OwnAttention(gnn.MessagePassing):
    """Scores by a product of queries and keys, a softmax over neighbours."""

    def __init__(self, in_channels, out_channels):
        super().__init__(aggr="add", node_dim=0)
        self.query = nn.Linear(in_channels, out_channels)
        self.key = nn.Linear(in_channels, out_channels)
        self.value = nn.Linear(in_channels, out_channels)
        self.skip = nn.Linear(in_channels, out_channels)

    def forward(self, x, edge_index):
        q, k, v = self.query(x), self.key(x), self.value(x)
        return self.propagate(edge_index, q=q, k=k, v=v) + self.skip(x)

    def message(self, q_i, k_j, v_j, index, ptr, size_i):
        score = (q_i * k_j).sum(dim=-1) / k_j.size(-1) ** 0.5
        alpha = softmax(score, index, ptr, size_i)
        return alpha.unsqueeze(-1) * v_j


@network()
def own_attention():
    return TwoLayers(OwnAttention(FEATURES, HIDDEN), OwnAttention(HIDDEN, CLASSES))


class OwnWeighted(gnn.MessagePassing):
    """Messages weighted by attributes of links, and an update with what the node had before."""

    def __init__(self, in_channels, out_channels):
        super().__init__(aggr="mean")
        score = nn.Linear(8, 1)
        self.weigh = nn.Sequential(nn.Linear(ATTRIBUTES, 8), nn.ReLU(), score, nn.Sigmoid())
        self.lin = nn.Linear(in_channels, out_channels)
        self.own = nn.Linear(in_channels, out_channels)

    def forward(self, x, edge_index, edge_attr):
        return self.propagate(edge_index, x=x, edge_weight=self.weigh(edge_attr))

    def message(self, x_j, edge_weight):
        return edge_weight * self.lin(x_j)

    def update(self, aggr_out, x):
        return aggr_out + self.own(x)


@network(call=lambda model, x, data: model(x, data.edge_index, data.edge_attr))
def own_weights_and_update():
    return TwoLayers(OwnWeighted(FEATURES, HIDDEN), OwnWeighted(HIDDEN, CLASSES))


class OwnGate(gnn.MessagePassing):
    """Every neighbour passes a gate that both ends open."""

    def __init__(self, width):
        super().__init__(aggr="add")
        self.gate = nn.Linear(2 * width, width)
        self.norm = nn.LayerNorm(width)

    def forward(self, x, edge_index):
        return x + 0.5 * self.propagate(edge_index, x=self.norm(x))

    def message(self, x_i, x_j):
        return torch.sigmoid(self.gate(torch.cat([x_i, x_j], dim=-1))) * x_j


@network()
class GatedResidual(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Linear(FEATURES, HIDDEN)
        self.layers = nn.ModuleList([OwnGate(HIDDEN), OwnGate(HIDDEN)])
        self.out = nn.Linear(HIDDEN, CLASSES)

    def forward(self, x, edge_index):
        x = self.embed(x)
        for layer in self.layers:
            x = layer(x, edge_index)
        return self.out(x)


class ByIndexAdd(nn.Module):
    """The mean over neighbours without torch_geometric."""

    def __init__(self, in_channels, out_channels):
        super().__init__()
        self.lin = nn.Linear(2 * in_channels, out_channels)

    def forward(self, x, edge_index):
        row, col = edge_index
        total = torch.zeros_like(x).index_add(0, col, x[row])
        count = torch.zeros(x.size(0), 1).index_add(0, col, torch.ones(col.size(0), 1))
        return self.lin(torch.cat([x, total / count.clamp(min=1)], dim=-1))


@network()
def by_index_add():
    return TwoLayers(ByIndexAdd(FEATURES, HIDDEN), ByIndexAdd(HIDDEN, CLASSES))


class ByScatter(nn.Module):
    """torch_geometric's scatter, without its layers."""

    def __init__(self, in_channels, out_channels):
        super().__init__()
        self.message = nn.Linear(2 * in_channels, out_channels)
        self.update = nn.Linear(in_channels + out_channels, out_channels)

    def forward(self, x, edge_index):
        src, dst = edge_index[0], edge_index[1]
        messages = F.relu(self.message(torch.cat([x[src], x[dst]], dim=-1)))
        pooled = scatter(messages, dst, dim=0, dim_size=x.size(0), reduce="mean")
        return self.update(torch.cat([x, pooled], dim=-1))


@network()
def by_scatter():
    return TwoLayers(ByScatter(FEATURES, HIDDEN), ByScatter(HIDDEN, CLASSES))


class BySparseMatrix(nn.Module):
    """Kipf's first code: a normalised sparse matrix times features times weights."""

    def __init__(self, in_channels, out_channels):
        super().__init__()
        self.weight = nn.Parameter(torch.empty(in_channels, out_channels))
        nn.init.xavier_uniform_(self.weight)

    def forward(self, x, adj):
        return torch.sparse.mm(adj, x @ self.weight)


@network()
class SparseMatrixGCN(nn.Module):
    def __init__(self):
        super().__init__()
        self.gc1 = BySparseMatrix(FEATURES, HIDDEN)
        self.gc2 = BySparseMatrix(HIDDEN, CLASSES)

    def adjacency(self, edge_index, n):
        loops = torch.arange(n).expand(2, -1)
        index = torch.cat([edge_index, loops], dim=1)
        deg = torch.bincount(index[1], minlength=n).float()
        value = (deg[index[0]] * deg[index[1]]).rsqrt()
        return torch.sparse_coo_tensor(
            index.flip(0), value, (n, n), check_invariants=False
        ).coalesce()

    def forward(self, x, edge_index):
        adj = self.adjacency(edge_index, x.shape[0])
        x = F.relu(self.gc1(x, adj))
        x = F.dropout(x, 0.5, training=self.training)
        return F.log_softmax(self.gc2(x, adj), dim=1)


@network(alone=True)
class DenseMatrixGCN(nn.Module):
    """A dense adjacency matrix, and its powers, as in many notebooks."""

    def __init__(self):
        super().__init__()
        self.lin1 = nn.Linear(FEATURES, HIDDEN)
        self.lin2 = nn.Linear(HIDDEN, CLASSES)

    def forward(self, x, edge_index):
        n = x.size(0)
        adj = torch.eye(n)
        adj[edge_index[1], edge_index[0]] = 1.0
        adj = adj / adj.sum(dim=1, keepdim=True)
        x = torch.relu(adj @ self.lin1(x))
        return torch.matmul(adj, self.lin2(x))
