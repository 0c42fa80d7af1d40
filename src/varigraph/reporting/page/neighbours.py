"""Who is linked with whom, and how likely, for the drawing of a neighbourhood."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch_geometric.data import Data

from varigraph.data.links import links
from varigraph.moments.coins import coins_of
from varigraph.reporting.page.compact import rounded

#: Links that a page can carry: about 20 bytes each.
MOST = 1_000_000


def neighbours(graph: Data) -> dict[str, Any]:
    """Each link once: its two ends, its probability and, where it has only one, its direction.

    Args:
        graph: whose links they are.

    Returns:
        ``count`` alone where there are more than :data:`MOST`.
    """
    edge_index = _edges(graph)
    prob = graph.get("edge_prob")
    chance = torch.ones(edge_index.size(1)) if prob is None else prob.detach().cpu()
    coins = coins_of(edge_index, chance, len(graph.x))
    apart = coins.source != coins.target  # a node is not drawn as its own neighbour
    if int(apart.sum()) > MOST:
        return {"count": int(apart.sum())}
    both = coins.both_ways[apart]
    return {
        "count": len(both),
        "source": coins.source[apart].tolist(),
        "target": coins.target[apart].tolist(),
        "prob": None if prob is None else rounded(coins.prob[apart], digits=3),
        "oneWay": None if bool(both.all()) else (~both).long().tolist(),
    }


def _edges(graph: Data) -> Tensor:  # -> [2, edges]
    edge_index = links(graph)
    if edge_index is not None:
        return edge_index.cpu()
    starts, source = graph.adj_t.crow_indices().cpu(), graph.adj_t.col_indices().cpu()
    target = torch.arange(len(graph.x)).repeat_interleave(starts.diff())  # rows of adj_t
    return torch.stack([source, target])
