"""Causes as ``torch_geometric.explain.Explanation``, so that its viewers show them."""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import Tensor
from torch_geometric.data import Data
from torch_geometric.explain import Explanation

from varigraph.errors import GraphError
from varigraph.quantify.shares import FeatureShare, LinkShare


def explanation(
    data: Data, node_mask: Tensor, edge_mask: Tensor | None, **about: object
) -> Explanation:
    """Masks and what they are about, checked by torch_geometric.

    Args:
        data: the graph that was asked about.
        node_mask: shares of nodes and features, ``[nodes, features]`` or ``[nodes, 1]``.
        edge_mask: shares of links, ``[edges]``; None where no link is in doubt.
        about: further fields.

    Raises:
        GraphError: the graph is another one.
    """
    if len(data.x) != len(node_mask) or (
        edge_mask is not None and data.num_edges != len(edge_mask)
    ):
        raise GraphError(
            f"the graph has {len(data.x)} nodes and {data.num_edges} links, the explanation others",
            "give the graph that was asked about",
        )
    masks = {"node_mask": node_mask, **({} if edge_mask is None else {"edge_mask": edge_mask})}
    found = Explanation(x=data.x, edge_index=data.edge_index, **masks, **about)
    found.validate(raise_on_error=True)
    return found


def feature_mask(causes: Iterable[FeatureShare], data: Data) -> Tensor:  # -> [nodes, features]
    """Shares of single features; 0 for what is not listed."""
    mask = torch.zeros_like(data.x)
    for cause in causes:
        mask[cause.node, cause.feature] = cause.share
    return mask


def link_mask(causes: Iterable[LinkShare], data: Data) -> Tensor | None:  # -> [edges]
    """Shares of links, in each direction in which they are listed; None where there are none."""
    causes = tuple(causes)
    if not causes:
        return None
    source, target = data.edge_index
    mask = torch.zeros(data.num_edges, dtype=data.x.dtype, device=data.x.device)
    for cause in causes:
        here = (source == cause.source) & (target == cause.target)
        back = (source == cause.target) & (target == cause.source)
        mask[here | back if cause.both_ways else here] = cause.share
    return mask
