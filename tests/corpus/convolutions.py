"""Two layers of every convolution of torch_geometric, on the graphs of the corpus."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch_geometric import nn as gnn

from corpus.edges import degrees, perceptron
from corpus.graphs import ATTRIBUTES, CLASSES, FEATURES, RELATIONS, shop
from corpus.kinds import HeteroConvolutions, HeteroTransformer, users
from corpus.registry import Network

Layer = Callable[[int, int], nn.Module]
#: Convolutions that cannot be run, or not with noise, and why.
LEFT_OUT = {
    "CuGraphSAGEConv": "needs pylibcugraphops, which is for GPUs only",
    "CuGraphGATConv": "needs pylibcugraphops, which is for GPUs only",
    "CuGraphRGCNConv": "needs pylibcugraphops, which is for GPUs only",
    "FusedGATConv": "needs dgNN, which is for GPUs only",
    "GravNetConv": "needs torch-cluster, which is not installed",
    "DynamicEdgeConv": "needs torch-cluster, which is not installed",
    "XConv": "needs torch-cluster, which is not installed",
    "PANConv": "needs torch-sparse, which is not installed",
    "SplineConv": "needs torch-spline-conv, which is not installed",
    "WLConv": "hashes whole numbers: there is no noise in them, and no answer in real numbers",
}


class Two(nn.Module):
    """Two layers; a dense one behind them where they keep the width."""

    def __init__(self, layer: Layer, *, keeps: bool = False) -> None:
        super().__init__()
        self.conv1 = layer(FEATURES, FEATURES)
        self.conv2 = layer(FEATURES, FEATURES if keeps else CLASSES)
        self.lin = nn.Linear(FEATURES, CLASSES) if keeps else nn.Identity()

    def forward(self, x: Tensor, *others: Any) -> Tensor:
        return self.lin(self.conv2(self.conv1(x, *others).relu(), *others))


class FirstKept(Two):
    """Layers that also look at what the first dense layer said."""

    def forward(self, x: Tensor, *others: Any) -> Tensor:
        h = self.conv1(x, x, *others).relu()
        return self.lin(self.conv2(h, x, *others))


class Signed(nn.Module):
    """Links that agree and links that do not, each summed apart."""

    def __init__(self) -> None:
        super().__init__()
        self.conv1 = gnn.SignedConv(FEATURES, 8, first_aggr=True)
        self.conv2 = gnn.SignedConv(8, 8, first_aggr=False)
        self.lin = nn.Linear(16, CLASSES)

    def forward(self, x: Tensor, edge_index: Tensor, edge_type: Tensor) -> Tensor:
        parts = edge_index[:, edge_type > 0], edge_index[:, edge_type == 0]
        return self.lin(self.conv2(self.conv1(x, *parts).relu(), *parts))


class Neighbourly(nn.Module):
    """DNA: attention over what all layers before said."""

    def __init__(self) -> None:
        super().__init__()
        self.convs = nn.ModuleList(gnn.DNAConv(FEATURES, heads=2) for _ in range(2))
        self.lin = nn.Linear(FEATURES, CLASSES)

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        layers = x.view(-1, 1, FEATURES)
        for conv in self.convs:
            layers = torch.cat([layers, conv(layers, edge_index).relu().unsqueeze(1)], dim=1)
        return self.lin(layers[:, -1])


class Mesh(nn.Module):
    """Each edge of a mesh has four others around it, none of which can be missing."""

    def __init__(self) -> None:
        super().__init__()
        self.conv1 = gnn.MeshCNNConv(FEATURES, FEATURES)
        self.conv2 = gnn.MeshCNNConv(FEATURES, CLASSES)

    def forward(self, x: Tensor) -> Tensor:
        edge = torch.arange(len(x)).repeat_interleave(4)
        around = (edge + torch.tensor([1, 2, -1, -2]).repeat(len(x))) % len(x)
        links = torch.stack([around, edge])
        return self.conv2(self.conv1(x, links).relu(), links)


class Points(nn.Module):
    """Layers that are given positions between features and links."""

    def __init__(self, layer: Layer) -> None:
        super().__init__()
        self.conv1, self.conv2 = layer(FEATURES, FEATURES), layer(FEATURES, FEATURES)
        self.lin = nn.Linear(FEATURES, CLASSES)

    def forward(self, x: Tensor, *others: Any) -> Tensor:
        return self.lin(self.conv2(self.conv1(x, *others).relu(), *others))


class Attending(nn.Module):
    """HAN: attention within and between kinds."""

    def __init__(self) -> None:
        super().__init__()
        widths = {kind: shop()[kind].x.shape[1] for kind in shop().node_types}
        self.conv1 = gnn.HANConv(widths, 16, shop().metadata(), heads=2)
        self.lin = nn.Linear(16, CLASSES)

    def forward(self, x: dict[str, Tensor], links: dict[Any, Tensor]) -> Tensor:
        return self.lin(self.conv1(x, links)["user"].relu())


def linear(conv: Callable[..., nn.Module], **options: Any) -> Layer:
    """A layer that is made from two widths."""
    return lambda width, out: conv(width, out, **options)


def kept(conv: Callable[..., nn.Module], *args: Any, **options: Any) -> Layer:
    """A layer that keeps the width, and may not want to know it."""
    return lambda width, out: conv(*args, **options)


def principal(width: int, out: int) -> nn.Module:
    scalers = ["identity", "amplification", "attenuation"]
    return gnn.PNAConv(width, out, ["mean", "min", "max", "std"], scalers, degrees())


def point_gnn(width: int, out: int) -> nn.Module:
    mlps = perceptron(width, 8, 3), perceptron(width + 3, width), perceptron(width, width)
    return gnn.PointGNNConv(*mlps)


ATTR, WEIGHT, KINDS, POS = ("edge_attr",), ("edge_weight",), ("edge_type",), ("pos",)
DIM = {"edge_dim": ATTRIBUTES}


def heat(width: int, out: int) -> nn.Module:
    return gnn.HEATConv(width, out, 2, RELATIONS, 4, ATTRIBUTES, 4)


#: Layers that look at all nodes of a graph.
WHOLE = {"GPSConv", "HANConv"}
#: Layers that are called with features, links, and what else is named.
PLAIN: dict[str, tuple[Layer, tuple[str, ...]]] = {
    "GCNConv": (gnn.GCNConv, ()),
    "ChebConv": (linear(gnn.ChebConv, K=3), ()),
    "SAGEConv": (gnn.SAGEConv, ()),
    "GraphConv": (gnn.GraphConv, WEIGHT),
    "ResGatedGraphConv": (linear(gnn.ResGatedGraphConv, **DIM), ATTR),
    "GATConv": (gnn.GATConv, ()),
    "GATv2Conv": (gnn.GATv2Conv, ()),
    "TransformerConv": (linear(gnn.TransformerConv, **DIM), ATTR),
    "TAGConv": (linear(gnn.TAGConv, K=2), WEIGHT),
    "GINConv": (lambda width, out: gnn.GINConv(perceptron(width, 16, out)), ()),
    "GINEConv": (lambda w, out: gnn.GINEConv(perceptron(w, 16, out), edge_dim=ATTRIBUTES), ATTR),
    "ARMAConv": (gnn.ARMAConv, ()),
    "SGConv": (linear(gnn.SGConv, K=2), ()),
    "SSGConv": (linear(gnn.SSGConv, alpha=0.1, K=2), ()),
    "MFConv": (linear(gnn.MFConv, max_degree=6), ()),
    "RGCNConv": (linear(gnn.RGCNConv, num_relations=RELATIONS), KINDS),
    "FastRGCNConv": (linear(gnn.FastRGCNConv, num_relations=RELATIONS), KINDS),
    "RGATConv": (linear(gnn.RGATConv, num_relations=RELATIONS), KINDS),
    "GMMConv": (linear(gnn.GMMConv, dim=ATTRIBUTES, kernel_size=2), ATTR),
    "NNConv": (lambda w, o: gnn.NNConv(w, o, perceptron(ATTRIBUTES, 8, w * o), aggr="mean"), ATTR),
    "EdgeConv": (lambda width, out: gnn.EdgeConv(perceptron(2 * width, 16, out)), ()),
    "FeaStConv": (linear(gnn.FeaStConv, heads=2), ()),
    "HypergraphConv": (gnn.HypergraphConv, ()),
    "LEConv": (gnn.LEConv, ()),
    "PNAConv": (principal, ()),
    "ClusterGCNConv": (gnn.ClusterGCNConv, ()),
    "GENConv": (gnn.GENConv, ()),
    "FiLMConv": (gnn.FiLMConv, ()),
    "SuperGATConv": (gnn.SuperGATConv, ()),
    "EGConv": (linear(gnn.EGConv, num_heads=4, num_bases=2), ()),
    "PDNConv": (linear(gnn.PDNConv, edge_dim=ATTRIBUTES, hidden_channels=8), ATTR),
    "GeneralConv": (gnn.GeneralConv, ()),
    "MixHopConv": (lambda width, out: gnn.MixHopConv(width, out // 2, powers=[0, 1]), ()),
    "DirGNNConv": (lambda width, out: gnn.DirGNNConv(gnn.SAGEConv(width, out)), ()),
}
#: The same for layers that keep the width.
WIDE: dict[str, tuple[Layer, tuple[str, ...]]] = {
    "SimpleConv": (kept(gnn.SimpleConv, "mean", combine_root="self_loop"), ()),
    "GatedGraphConv": (kept(gnn.GatedGraphConv, FEATURES, num_layers=1), ()),
    "AGNNConv": (kept(gnn.AGNNConv), ()),
    "APPNP": (kept(gnn.APPNP, K=3, alpha=0.1), ()),
    "CGConv": (kept(gnn.CGConv, FEATURES, dim=ATTRIBUTES), ATTR),
    "WLConvContinuous": (kept(gnn.WLConvContinuous), WEIGHT),
    "LGConv": (kept(gnn.LGConv), ()),
    "GPSConv": (lambda width, out: gnn.GPSConv(width, gnn.GCNConv(width, width)), ()),
    "AntiSymmetricConv": (kept(gnn.AntiSymmetricConv, FEATURES), ()),
}
OTHERS: dict[str, tuple[Callable[[], nn.Module], tuple[str, ...]]] = {
    "FAConv": (lambda: FirstKept(kept(gnn.FAConv, FEATURES), keeps=True), ()),
    "GCN2Conv": (lambda: FirstKept(kept(gnn.GCN2Conv, FEATURES, alpha=0.1), keeps=True), ()),
    "SignedConv": (Signed, KINDS),
    "DNAConv": (Neighbourly, ()),
    "HEATConv": (lambda: Two(heat), ("node_type", "edge_type", "edge_attr")),
}


def _call(fields: tuple[str, ...]) -> Callable[[nn.Module, Any, Any], Any]:
    return lambda model, x, data: model(x, data.edge_index, *(data[each] for each in fields))


def _made(layer: Layer, *, keeps: bool) -> Callable[[], nn.Module]:
    return lambda: Two(layer, keeps=keeps)


def _points(layer: Layer) -> Callable[[], nn.Module]:
    return lambda: Points(layer)


def _all() -> dict[str, Network]:
    builds = {
        name: (_made(layer, keeps=table is WIDE), fields)
        for table in (PLAIN, WIDE)
        for name, (layer, fields) in table.items()
    }
    found = {
        name: Network(name, "convolutions", build, call=_call(fields), alone=name in WHOLE)
        for name, (build, fields) in {**builds, **OTHERS}.items()
    }
    return {**found, **_with_positions(), **_with_kinds(), "MeshCNNConv": _mesh()}


def _with_positions() -> dict[str, Network]:
    def call(model: nn.Module, x: Tensor, data: Any) -> Any:
        return model(x, data.pos, data.edge_index)

    def with_normals(model: nn.Module, x: Tensor, data: Any) -> Any:
        return model(x, data.pos, F.normalize(data.pos + 1, dim=-1), data.edge_index)

    layers: dict[str, tuple[Layer, Any]] = {
        "PointNetConv": (lambda width, out: gnn.PointNetConv(perceptron(width + 3, out)), call),
        "PointTransformerConv": (gnn.PointTransformerConv, call),
        "PointGNNConv": (point_gnn, call),
        "PPFConv": (lambda width, out: gnn.PPFConv(perceptron(width + 4, out)), with_normals),
    }
    return {
        name: Network(name, "convolutions", _points(layer), call=way)
        for name, (layer, way) in layers.items()
    }


def _with_kinds() -> dict[str, Network]:
    builds = {"HeteroConv": HeteroConvolutions, "HGTConv": HeteroTransformer, "HANConv": Attending}
    return {
        name: Network(name, "convolutions", build, alone=name in WHOLE, **users)
        for name, build in builds.items()
    }


def _mesh() -> Network:
    def call(model: nn.Module, x: Tensor, data: Any) -> Any:
        return model(x)

    return Network("MeshCNNConv", "convolutions", Mesh, call=call, alone=True)


CONVOLUTIONS = _all()
