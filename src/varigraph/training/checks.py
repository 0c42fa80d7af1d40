"""One look at a network and a graph before training starts."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch_geometric.data import Data

from varigraph.data import check_graph
from varigraph.data.links import check_device
from varigraph.errors import GraphError, ModelError
from varigraph.moments import Gaussian
from varigraph.prediction.checks import check_model, check_output
from varigraph.prediction.network_call import caller, check_call, plain_answer

#: Types that labels can have.
CLASSES = (torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64)


def check_trainable(model: nn.Module, graph: Data) -> None:
    """Raises if the network could not be trained on the graph; otherwise does nothing.

    Args:
        model: the network, which stays as it is.
        graph: with features, links, labels and masks.

    Raises:
        GraphError: naming what the graph lacks.
        ModelError: naming the parameter that does not fit it.
    """
    check_lesson(graph)
    check_model(model, graph)
    check_call(model, graph, None)
    _check_parameters(model)
    _check_logits(plain_answer(model, caller(model, graph, None), graph.x), graph)


def check_lesson(graph: Data) -> None:
    """Raises if there is nothing on the graph that a network could be trained on.

    Args:
        graph: with features, links, labels and masks.
    """
    check_graph(graph)
    if graph.edge_index is None or graph.y is None:
        raise GraphError(
            "the graph has no edge_index or no labels y", "Data(x=..., edge_index=..., y=...)"
        )
    for name in ("train_mask", "val_mask"):
        _check_labels(graph, name)


def _check_labels(graph: Data, mask_name: str) -> None:
    mask, y, nodes = graph.get(mask_name), graph.y, graph.x.shape[:1]
    there = isinstance(mask, Tensor) and mask.dtype == torch.bool and mask.shape == nodes
    if not there or mask.is_meta or not bool(mask.any()):
        raise GraphError(
            f"the graph has no nodes in {mask_name}",
            f"graph.{mask_name} = mask, [nodes] bool, true for at least one node",
        )
    check_device(mask_name, mask, graph.x)
    classes = isinstance(y, Tensor) and y.dtype in CLASSES and y.shape == nodes
    if classes:
        check_device("y", y, graph.x)
    if not classes or bool(y[mask].min() < 0):
        raise GraphError(
            f"the labels y of the nodes in {mask_name} are not classes",
            "graph.y = labels, [nodes], integers from 0",
        )


def _check_parameters(model: nn.Module) -> None:
    if not any(parameter.requires_grad for parameter in model.parameters()):
        raise ModelError(
            f"{type(model).__name__} has no weights that can be learned",
            "model.requires_grad_(True), or a network with weights",
        )


def _check_logits(answer: object, graph: Data) -> None:
    nodes = len(graph.x)
    if not isinstance(answer, Tensor) or answer.shape[:1] != (nodes,):
        kind = tuple(answer.shape) if isinstance(answer, Tensor) else type(answer).__name__
        raise ModelError(
            f"the network answers with {kind}, not with one row for each of {nodes} nodes",
            "return the logits, [nodes, classes]",
        )
    check_output(Gaussian.certain(answer), "classification")
    classes, highest = answer.size(1), int(graph.y[graph.train_mask | graph.val_mask].max())
    if highest >= classes:
        raise ModelError(
            f"there are labels up to {highest}, but the network has {classes} outputs",
            f"give it {highest + 1} outputs, or number the classes from 0",
        )
