"""The feature matrix of a graph, made sure of before anything is computed with it."""

from __future__ import annotations

import torch
from torch import Tensor
from torch_geometric.data import Data, HeteroData

from varigraph.errors import GraphError

#: Types that torch can compute with everywhere.
FLOATS = (torch.float16, torch.bfloat16, torch.float32, torch.float64)


def features(graph: Data) -> Tensor:  # -> [nodes, features]
    """``graph.x``, known to be a dense matrix of floats with at least one node.

    Raises:
        GraphError: if the graph is of another kind, or ``x`` is missing or of another form.
    """
    _check_kind(graph)
    x = graph.x
    if x is None:
        raise GraphError("the graph has no features x", "graph.x = torch.ones(nodes, 1), or better")
    if not isinstance(x, Tensor):
        raise GraphError(f"x is a {type(x).__name__}, not a tensor", "graph.x = torch.as_tensor(x)")
    if x.layout != torch.strided:
        raise GraphError(f"x is stored as {x.layout}", "graph.x = graph.x.to_dense()")
    if x.is_nested:
        raise GraphError("x is nested, not a matrix", "graph.x = graph.x.to_padded_tensor(0)")
    if x.dtype not in FLOATS:
        raise GraphError(f"x has dtype {x.dtype}, not a float", "graph.x = graph.x.float()")
    if x.dim() != 2:
        raise GraphError(
            f"x has shape {tuple(x.shape)}, not [nodes, features]",
            "graph.x = graph.x.view(nodes, features)",
        )
    if x.numel() == 0:
        raise GraphError(
            f"the graph is empty: x has {x.size(0)} nodes and {x.size(1)} features",
            "give a graph with at least one node and one feature",
        )
    return x


def finite_features(graph: Data) -> Tensor:  # -> [nodes, features]
    """:func:`features`, known to hold neither NaN nor infinity.

    Raises:
        GraphError: naming the first node and feature that are not finite.
    """
    x = features(graph)
    if x.is_meta:
        raise GraphError("x is on meta, where there are no numbers", "give x with its numbers")
    if bool(x.sum().isfinite()):  # one number that is not would show in the sum
        return x
    bad = ~x.isfinite()
    if bad.any():
        node, feature = first(bad)
        raise GraphError(
            f"x[{node}, {feature}] is {x[node, feature].item()}: "
            f"node {node}, feature {feature} is not finite",
            "replace it, as by graph.x = graph.x.nan_to_num(0, 0, 0)",
        )
    return x


def first(bad: Tensor) -> list[int]:  # [*shape] bool -> one index for every dimension
    """Where the first True stands. Small enough to put into a message."""
    return [int(index) for index in bad.nonzero()[0]]


def _check_kind(graph: object) -> None:
    if isinstance(graph, HeteroData):
        raise GraphError(
            "the graph is a HeteroData; only homogeneous graphs are supported for now",
            "graph.to_homogeneous(), if its node types share their features",
        )
    if not isinstance(graph, Data):
        raise GraphError(
            f"the graph is a {type(graph).__name__}, not a torch_geometric.data.Data",
            "Data(x=features, edge_index=links)",
        )
