"""Copies of a graph side by side, each with features and links of its own; in plain torch."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch_geometric.data import Data, HeteroData

from corpus.graphs import seeded

OF_NODES = ("x", "pos", "chosen", "node_type")
OF_LINKS = ("edge_attr", "edge_weight", "edge_type")
#: The one kind of nodes, and of links, of a graph that has no kinds.
NODES, LINKS = "nodes", ("nodes", "to", "nodes")


def _kinds(data: Any) -> tuple[dict[Any, Any], dict[Any, Any]]:
    """Where nodes and links of each kind are kept."""
    if isinstance(data, HeteroData):
        return (
            {kind: data[kind] for kind in data.node_types},
            {kind: data[kind] for kind in data.edge_types},
        )
    return {NODES: data}, {LINKS: data}


def drawn_features(data: Any, count: int, *, noisy: bool) -> dict[Any, Tensor]:
    """Features of each kind of nodes, ``[count, nodes, features]``."""
    stream, found = seeded(11), {}
    for kind, store in _kinds(data)[0].items():
        found[kind] = store.x.expand(count, *store.x.shape)
        if noisy:
            noise = torch.randn(count, *store.x.shape, generator=stream)
            found[kind] = store.x + store.x_var.sqrt() * noise
    return found


def drawn_coins(data: Any, count: int, *, certain: bool) -> dict[Any, Tensor]:
    """Whether each link is there, ``[count, links]`` for each kind.

    Both directions of a link whose chances agree have one coin; the way back between two kinds is
    another kind of link, which says so by its name.
    """
    stream, found = seeded(12), {}
    for kind, store in _kinds(data)[1].items():
        forth = (kind[2], kind[1].removeprefix("rev_"), kind[0])
        if certain:
            found[kind] = torch.ones(count, store.edge_index.shape[1], dtype=torch.bool)
        elif kind[1].startswith("rev_"):
            assert store.edge_index.equal(data[forth].edge_index.flip(0)), "another order"
        else:
            found[kind] = _coins(store.edge_index, store.edge_prob, count, stream, kind)
            if kind[0] != kind[2]:
                found[kind[2], f"rev_{kind[1]}", kind[0]] = found[kind]
    return found


def _coins(
    links: Tensor, prob: Tensor, count: int, stream: torch.Generator, kind: tuple[str, str, str]
) -> Tensor:  # [2, links], [links] -> [count, links]
    ends = links.sort(0).values if kind[0] == kind[2] else links
    key = torch.cat([ends.double(), prob.double()[None]])
    coin = key.unique(dim=1, return_inverse=True)[1]
    return torch.rand(count, int(coin.max()) + 1, generator=stream)[:, coin] < prob


def graph_of_copies(
    data: Any, features: dict[Any, Tensor], coins: dict[Any, Tensor], here: slice
) -> tuple[Any, Any]:
    """One graph that consists of copies of another, some draws of it; and its features.

    Args:
        data: the graph.
        features: all draws of them.
        coins: all draws of them.
        here: which draws.
    """
    union = data.__class__() if isinstance(data, HeteroData) else Data()
    nodes, links = _kinds(data)
    for kind, store in nodes.items():
        drawn = features[kind][here]
        into = union[kind] if isinstance(data, HeteroData) else union
        for name in (name for name in OF_NODES if name in store):
            into[name] = _repeated(store[name], len(drawn))
        into.x = drawn.flatten(0, 1)
    for kind, store in links.items():
        kept, into = coins[kind][here], union[kind] if isinstance(data, HeteroData) else union
        steps = torch.tensor([len(nodes[kind[0]].x), len(nodes[kind[2]].x)])
        into.edge_index = _moved(store.edge_index, len(kept), steps)[:, kept.flatten()]
        for name in (name for name in OF_LINKS if name in store):
            into[name] = _repeated(store[name], len(kept))[kept.flatten()]
    if isinstance(data, HeteroData):
        return union.x_dict, union
    if "pairs" in data:
        union.pairs = _moved(data.pairs, len(drawn), torch.tensor([data.num_nodes] * 2))
    if "batch" in data:
        graphs = data.batch.max()[None] + 1
        union.batch = _moved(data.batch[None], len(drawn), graphs)[0]
    return union.x, union


def _repeated(values: Tensor, copies: int) -> Tensor:
    return values.repeat(copies, *[1] * (values.dim() - 1))


def _moved(index: Tensor, copies: int, steps: Tensor) -> Tensor:  # [k, n] -> [k, copies * n]
    first = steps[:, None] * torch.arange(copies)
    return (index[:, None] + first[:, :, None]).flatten(1)
