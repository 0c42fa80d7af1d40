"""The links of a graph, made sure of before messages travel along them."""

from __future__ import annotations

import torch
from torch import Tensor
from torch_geometric import EdgeIndex
from torch_geometric.data import Data

from varigraph.data.features import features, first
from varigraph.errors import GraphError


def links(graph: Data) -> Tensor | None:  # -> [2, edges]
    """``graph.edge_index`` as a plain tensor whose node numbers exist; None where ``adj_t`` serves.

    Raises:
        GraphError: if there are links in neither form, or they do not fit the features.
    """
    x = features(graph)
    edge_index, adjacency = graph.edge_index, getattr(graph, "adj_t", None)
    if edge_index is None and adjacency is not None:
        _check_adjacency(adjacency, x)
        return None
    if edge_index is None:
        raise GraphError(
            "the graph has no links edge_index",
            "graph.edge_index = torch.empty(2, 0, dtype=torch.long), if there really are none",
        )
    plain: Tensor = edge_index.as_tensor() if isinstance(edge_index, EdgeIndex) else edge_index
    _check_form(plain)
    check_device("edge_index", plain, x)
    _check_range(plain, nodes=x.size(0))
    return plain


def check_device(name: str, value: Tensor, other: Tensor) -> None:
    """Raises where two parts of a graph lie on different devices."""
    if value.device != other.device:
        raise GraphError(
            f"{name} is on {value.device}, the rest of the graph on {other.device}",
            f"graph = graph.to({str(other.device)!r})",
        )


def _check_adjacency(adjacency: object, x: Tensor) -> None:
    if not isinstance(adjacency, Tensor) or adjacency.layout != torch.sparse_csr:
        kind = adjacency.layout if isinstance(adjacency, Tensor) else type(adjacency).__name__
        raise GraphError(
            f"adj_t is a {kind}, not a sparse CSR tensor of torch",
            "give edge_index, or graph.adj_t = "
            "torch_geometric.utils.to_torch_csr_tensor(edge_index.flip(0), size=nodes)",
        )
    nodes = x.size(0)
    if adjacency.shape != (nodes, nodes):
        raise GraphError(
            f"adj_t has shape {tuple(adjacency.shape)}, but the graph has {nodes} nodes",
            f"give a matrix of shape ({nodes}, {nodes})",
        )
    check_device("adj_t", adjacency, x)
    if not bool(adjacency.values().isfinite().all()):
        raise GraphError("adj_t holds NaN or infinity", "give finite weights, 1 for plain links")


def _check_form(edge_index: object) -> None:
    if not isinstance(edge_index, Tensor):
        raise GraphError(
            f"edge_index is a {type(edge_index).__name__}, not a tensor",
            "graph.edge_index = torch.as_tensor(edge_index)",
        )
    if edge_index.layout != torch.strided:
        raise GraphError(
            f"edge_index is stored as {edge_index.layout}",
            "give node numbers [2, edges], or the transposed matrix as graph.adj_t",
        )
    if edge_index.dtype != torch.int64:
        raise GraphError(
            f"edge_index has dtype {edge_index.dtype}, not torch.int64",
            "graph.edge_index = graph.edge_index.long()",
        )
    if edge_index.dim() != 2 or edge_index.size(0) != 2:
        raise GraphError(
            f"edge_index has shape {tuple(edge_index.shape)}, not [2, edges]",
            "give a row of sources and a row of targets; a list of pairs is edge_index.t()",
        )


def _check_range(edge_index: Tensor, *, nodes: int) -> None:  # [2, edges]
    bad = (edge_index < 0) | (edge_index >= nodes)
    if bad.any():
        row, edge = first(bad)
        raise GraphError(
            f"edge_index[{row}, {edge}] is node {edge_index[row, edge].item()}, "
            f"but the graph has nodes 0 to {nodes - 1}",
            f"correct or drop link {edge}, or add the missing rows to x",
        )
