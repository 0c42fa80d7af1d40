"""Networks for several kinds of nodes and links: users, items and tags of a shop."""

from __future__ import annotations

import torch
from torch import nn
from torch.nn import functional as F
from torch_geometric import nn as gnn

from corpus.graphs import CLASSES, FEATURES, SHOP, shop
from corpus.registry import network

HIDDEN = 16
WIDTHS = {kind: FEATURES - 4 * place for place, kind in enumerate(SHOP)}


def on_dicts(model, x, data):
    return model(x, data.edge_index_dict)


users = {"graph": "shop", "target": ("user", "y"), "call": on_dicts}


@network(**users)
class HeteroConvolutions(nn.Module):
    """A layer for each kind of link, and their sum."""

    def __init__(self):
        super().__init__()
        self.conv1 = self.layer(HIDDEN)
        self.conv2 = self.layer(HIDDEN)
        self.lin = nn.Linear(HIDDEN, CLASSES)

    @staticmethod
    def layer(width):
        kinds = {kind: gnn.SAGEConv((-1, -1), width) for kind in shop().edge_types}
        return gnn.HeteroConv(kinds, aggr="sum")

    def forward(self, x_dict, edge_index_dict):
        x_dict = self.conv1(x_dict, edge_index_dict)
        x_dict = {key: x.relu() for key, x in x_dict.items()}
        x_dict = self.conv2(x_dict, edge_index_dict)
        return self.lin(x_dict["user"])


@network(**users)
class HeteroAttention(nn.Module):
    """GAT between kinds, without loops, as loops make no sense there."""

    def __init__(self):
        super().__init__()
        kinds = {
            kind: gnn.GATConv((-1, -1), HIDDEN, add_self_loops=False) for kind in shop().edge_types
        }
        self.conv = gnn.HeteroConv(kinds, aggr="mean")
        self.own = nn.Linear(FEATURES, HIDDEN)
        self.lin = nn.Linear(HIDDEN, CLASSES)

    def forward(self, x_dict, edge_index_dict):
        h = self.conv(x_dict, edge_index_dict)["user"] + self.own(x_dict["user"])
        return self.lin(F.elu(h))


class Homogeneous(nn.Module):
    """Written for one kind of node, to be made into one for several."""

    def __init__(self):
        super().__init__()
        self.conv1 = gnn.SAGEConv((-1, -1), HIDDEN)
        self.conv2 = gnn.SAGEConv((-1, -1), CLASSES)

    def forward(self, x, edge_index):
        return self.conv2(self.conv1(x, edge_index).relu(), edge_index)


@network(**users, picks="user")
def made_hetero():
    return gnn.to_hetero(Homogeneous(), shop().metadata(), aggr="sum")


@network(**users)
class HeteroTransformer(nn.Module):
    """HGT: attention with matrices for every kind."""

    def __init__(self):
        super().__init__()
        self.lins = nn.ModuleDict({kind: nn.Linear(WIDTHS[kind], HIDDEN) for kind in SHOP})
        self.convs = nn.ModuleList(
            gnn.HGTConv(HIDDEN, HIDDEN, shop().metadata(), heads=2) for _ in range(2)
        )
        self.lin = nn.Linear(HIDDEN, CLASSES)

    def forward(self, x_dict, edge_index_dict):
        x_dict = {kind: self.lins[kind](x).relu() for kind, x in x_dict.items()}
        for conv in self.convs:
            x_dict = conv(x_dict, edge_index_dict)
        return self.lin(x_dict["user"])


@network(**users)
class RelationalOnKinds(nn.Module):
    """All nodes in one matrix, kinds of links as numbers: RGCN as it was meant."""

    def __init__(self):
        super().__init__()
        self.lins = nn.ModuleDict({kind: nn.Linear(WIDTHS[kind], HIDDEN) for kind in SHOP})
        self.conv1 = gnn.RGCNConv(HIDDEN, HIDDEN, len(shop().edge_types), num_bases=3)
        self.conv2 = gnn.RGCNConv(HIDDEN, CLASSES, len(shop().edge_types), num_bases=3)

    def forward(self, x_dict, edge_index_dict):
        first, start = {}, 0
        for kind, x in x_dict.items():
            first[kind], start = start, start + len(x)
        x = torch.cat([self.lins[kind](x) for kind, x in x_dict.items()])
        links, types = [], []
        for number, (kind, index) in enumerate(edge_index_dict.items()):
            links.append(index + torch.tensor([[first[kind[0]]], [first[kind[2]]]]))
            types.append(torch.full((index.size(1),), number))
        edge_index, edge_type = torch.cat(links, dim=1), torch.cat(types)
        x = self.conv1(x, edge_index, edge_type).relu()
        users = slice(first["user"], first["user"] + len(x_dict["user"]))
        return self.conv2(x, edge_index, edge_type)[users]


@network(**users)
class PlainBipartite(nn.Module):
    """Items tell users about themselves: two layers between two kinds, tags left out."""

    def __init__(self):
        super().__init__()
        self.to_items = gnn.SAGEConv((FEATURES, WIDTHS["item"]), HIDDEN)
        self.to_users = gnn.SAGEConv((HIDDEN, FEATURES), HIDDEN)
        self.lin = nn.Linear(HIDDEN, CLASSES)

    def forward(self, x_dict, edge_index_dict):
        buys = edge_index_dict["user", "buys", "item"]
        items = self.to_items((x_dict["user"], x_dict["item"]), buys).relu()
        back = edge_index_dict["item", "rev_buys", "user"]
        return self.lin(self.to_users((items, x_dict["user"]), back).relu())
