"""One look at the model, the graph and the first answer before the work starts."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch_geometric.data import Data

from varigraph.errors import ModelError, OptionError
from varigraph.moments import Gaussian
from varigraph.prediction.prediction import Prediction, Task

#: With fewer digits a variance is lost in the rounding of the mean.
COMPUTED_IN = (torch.float32, torch.float64)


def check_model(model: nn.Module, graph: Data) -> None:
    """Raises if the model cannot be run on the graph; otherwise does nothing.

    Args:
        model: the network, which stays as it is.
        graph: with features ``x``.

    Raises:
        ModelError: naming the parameter that does not fit.
        OptionError: torch is set to compute without numbers.
    """
    if not isinstance(model, nn.Module):
        raise ModelError(
            f"the model is a {type(model).__name__}", "give a network: a torch.nn.Module"
        )
    if torch.get_default_device().type == "meta":
        raise OptionError(
            "torch makes new tensors on meta, where there are no numbers",
            'torch.set_default_device("cpu")',
        )
    if graph.x.dtype not in COMPUTED_IN:
        raise ModelError(
            f"graph.x is {graph.x.dtype}, too coarse for variances",
            "model.float() and graph.x = graph.x.float()",
        )
    for name, module in model.named_modules():
        if isinstance(module, torch.jit.ScriptModule):
            raise ModelError(
                f"{f'layer {name}' if name else 'the model'} was scripted or traced by torch.jit, "
                "which hides what it is made of",
                "give the network that it was made of",
            )
    for name, parameter in model.named_parameters():
        if isinstance(parameter, nn.UninitializedParameter):
            raise ModelError(
                f"parameter {name} has no size yet", "run the model once: model(x, edge_index)"
            )
        if parameter.is_meta:
            raise ModelError(
                f"parameter {name} is on meta, where there are no numbers",
                "load the weights: model.to_empty(device='cpu'), model.load_state_dict(...)",
            )
        if parameter.device != graph.x.device:
            raise ModelError(
                f"parameter {name} is on {parameter.device}, graph.x on {graph.x.device}",
                f"graph = graph.to({str(parameter.device)!r})",
            )
        real = parameter.is_floating_point() or parameter.is_complex()
        if real and parameter.dtype != graph.x.dtype:
            remedy = f"graph.x = graph.x.to({parameter.dtype})"
            raise ModelError(
                f"parameter {name} is {parameter.dtype}, graph.x is {graph.x.dtype}",
                remedy if parameter.dtype in COMPUTED_IN else f"model.to({graph.x.dtype})",
            )


def check_last_softmax(task: Task) -> None:
    """Raises if a network that ends in a softmax is asked for anything but classes."""
    if task == "regression":
        raise ModelError("the model ends in a softmax", 'that is task="classification"')


def check_output(out: Gaussian, task: Task) -> None:
    """Raises if a model's answer is not one of the task's kind.

    Args:
        out: what the model returned.
        task: what is asked for.
    """
    mean = out.mean
    if not mean.is_floating_point() or mean.layout != torch.strided or mean.is_meta:
        raise ModelError(
            f"the answer is {mean.dtype}, {mean.layout} on {mean.device}, not real numbers",
            "return dense floats, such as logits",
        )
    if mean.dim() != 2 or mean.numel() == 0:
        raise ModelError(
            f"the answer has shape {tuple(mean.shape)}, not one row per node",
            "return [nodes, outputs]; more dimensions by out.flatten(1)",
        )
    finite = mean.isfinite() & out.var.isfinite()
    if not bool(finite.all()):
        row = int((~finite).any(1).nonzero()[0])
        raise ModelError(
            f"the answer for node {row} is not a finite number",
            "check the weights for NaN or infinity, and that the model keeps what in-place "
            "functions such as scatter_add_() return",
        )
    if task == "classification" and mean.shape[1] < 2:
        raise ModelError(
            f"the answer has shape {tuple(mean.shape)}, not one value per class for each node",
            'for other answers than logits: task="regression"',
        )


def check_answer(answer: Prediction) -> None:
    """Raises if numbers went beyond what their type can hold on the way to an answer."""
    parts = [answer.mean, answer.logits.mean, answer.logits.var, *answer.by_source.values()]
    if not all(bool(part.isfinite().all()) for part in parts):
        raise ModelError(
            f"numbers beyond {answer.mean.dtype} came up on the way to the answer",
            "scale the features, their noise or the weights, or compute with more digits: "
            "model.double(), graph.x = graph.x.double()",
        )


def check_nodes(nodes: Tensor | None, count: int) -> Tensor | None:  # [nodes] int64 or bool
    """The nodes to answer for as an index, or None for all.

    Args:
        nodes: indices from 0 or a mask, see
            :func:`~varigraph.prediction.question.chosen_nodes`.
        count: number of nodes that there are.
    """
    if nodes is None:
        return None
    if nodes.dtype == torch.bool:
        if nodes.shape != (count,):
            raise OptionError(
                f"the mask of nodes has shape {tuple(nodes.shape)} for {count} nodes",
                "give one entry for every node: nodes=data.test_mask",
            )
        return nodes.nonzero().flatten()
    outside = nodes[nodes >= count]
    if len(outside) > 0:
        raise OptionError(
            f"there is no node {int(outside[0])} among {count}", f"count from 0 to {count - 1}"
        )
    return nodes
