"""One look at a network and a graph before training starts."""

from __future__ import annotations

from torch import nn
from torch_geometric.data import Data

from varigraph.data import check_graph
from varigraph.errors import GraphError
from varigraph.prediction.checks import check_model


def check_trainable(model: nn.Module, graph: Data) -> None:
    """Raises if the network could not be trained on the graph; otherwise does nothing.

    Args:
        model: the network, which stays as it is.
        graph: with features, links, labels and masks.

    Raises:
        GraphError: naming what the graph lacks.
        ModelError: naming the parameter that does not fit it.
    """
    check_graph(graph)
    if graph.edge_index is None or graph.y is None:
        raise GraphError(
            "the graph has no edge_index or no labels y", "Data(x=..., edge_index=..., y=...)"
        )
    for mask in ("train_mask", "val_mask"):
        _check_labels(graph, mask)
    check_model(model, graph)


def _check_labels(graph: Data, mask_name: str) -> None:
    mask, y = graph.get(mask_name), graph.y
    if mask is None or mask.shape != graph.x.shape[:1] or not mask.any():
        raise GraphError(
            f"the graph has no nodes in {mask_name}",
            f"graph.{mask_name} = mask, [nodes], true for at least one node",
        )
    if y.shape != mask.shape or y.is_floating_point() or y[mask].min() < 0:
        raise GraphError(
            f"the labels y of the nodes in {mask_name} are not classes",
            "graph.y = labels, [nodes], integers from 0",
        )
