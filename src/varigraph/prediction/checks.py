"""One look at the model, the graph and the first answer before the work starts."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch_geometric.data import Data

from varigraph.errors import ModelError, OptionError
from varigraph.moments import Gaussian
from varigraph.moments.softmax import Logits
from varigraph.prediction.prediction import Task


def check_model(model: nn.Module, graph: Data) -> None:
    """Raises if the model cannot be run on the graph; otherwise does nothing.

    Args:
        model: the network, which stays as it is.
        graph: with features ``x``.

    Raises:
        ModelError: naming the parameter that does not fit.
    """
    if not isinstance(model, nn.Module):
        raise ModelError(
            f"the model is a {type(model).__name__}", "give a network: a torch.nn.Module"
        )
    for name, parameter in model.named_parameters():
        if isinstance(parameter, nn.UninitializedParameter):
            raise ModelError(
                f"parameter {name} has no size yet", "run the model once: model(x, edge_index)"
            )
        if parameter.device != graph.x.device:
            raise ModelError(
                f"parameter {name} is on {parameter.device}, graph.x on {graph.x.device}",
                f"graph = graph.to({str(parameter.device)!r})",
            )
        if parameter.is_floating_point() and parameter.dtype != graph.x.dtype:
            raise ModelError(
                f"parameter {name} is {parameter.dtype}, graph.x is {graph.x.dtype}",
                f"graph.x = graph.x.to({parameter.dtype})",
            )


def check_output(out: Gaussian, task: Task) -> None:
    """Raises if a model's answer is not one of the task's kind.

    Args:
        out: what the model returned.
        task: what is asked for.
    """
    finite = out.mean.isfinite() & out.var.isfinite()
    if not bool(finite.all()):
        row = int((~finite).reshape(len(out), -1).any(1).nonzero()[0])
        raise ModelError(
            f"the answer for node {row} is not a finite number",
            "check the weights for NaN or infinity, and that the model keeps what in-place "
            "functions such as scatter_add_() return",
        )
    if task == "regression" and isinstance(out, Logits):
        raise ModelError("the model ends in a softmax", 'that is task="classification"')
    if task == "classification" and (out.mean.dim() != 2 or out.mean.shape[1] < 2):
        raise ModelError(
            f"the answer has shape {tuple(out.mean.shape)}, not one value per class for each node",
            'for other answers than logits: task="regression"',
        )


def check_nodes(nodes: Tensor | Sequence[int] | None, count: int) -> Tensor | None:
    """The nodes to answer for as an index, or None for all.

    Args:
        nodes: indices or a mask.
        count: number of nodes that there are.
    """
    if nodes is None:
        return None
    index = torch.as_tensor(nodes)
    if index.numel() == 0:
        raise OptionError("nodes names no node", "nodes=None answers for all of them")
    if index.dtype == torch.bool:
        if index.shape != (count,):
            raise OptionError(
                f"the mask of nodes has shape {tuple(index.shape)} for {count} nodes",
                "give one entry for every node: nodes=data.test_mask",
            )
        return index.nonzero().flatten()
    if index.dim() != 1 or index.is_floating_point():
        raise OptionError("nodes is neither a list of indices nor a mask", "nodes=[0, 5, 7]")
    outside = index[(index < -count) | (index >= count)]
    if len(outside) > 0:
        raise OptionError(
            f"there is no node {int(outside[0])} among {count}", f"count from 0 to {count - 1}"
        )
    return index
