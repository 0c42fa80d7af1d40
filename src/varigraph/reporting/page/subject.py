"""What a page is about: a prediction, its graph, and the nodes whose truth is known."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch_geometric.data import Data

from varigraph.choices import Task
from varigraph.data import check_one_kind
from varigraph.errors import GraphError, OptionError
from varigraph.metrics.inputs import tensors
from varigraph.options import text
from varigraph.prediction.prediction import Prediction
from varigraph.prediction.sources.source import all_parts

#: Which part of the data a node belongs to, as its mask is called and as it is shown.
GROUPS = {"train_mask": "training", "val_mask": "validation", "test_mask": "test"}


@dataclass(frozen=True, eq=False)
class PageSubject:
    """A prediction for every node of a graph, on the CPU and in float64.

    Args:
        mean: expected answers, ``[nodes, outputs]``.
        by_source: variance due to each source, ``[parts, nodes, outputs]``.
        parts: their names.
        classification: whether the answers are class probabilities; yes or no is two classes.
        task: what was predicted.
        truth: true classes ``[nodes]`` or values ``[nodes, outputs]``; None where unknown.
        masks: nodes of each of :data:`GROUPS` that the graph has, ``[nodes]`` bool.
        scored: nodes that are compared with the truth, ``[nodes]`` bool.
        scored_as: these nodes in words.
        node_names: what the nodes are called; None for their numbers.
        output_names: what the classes or outputs are called.
        plain: answers of the network by itself, ``[nodes, outputs]``; None where unknown.
    """

    mean: Tensor
    by_source: Tensor
    parts: tuple[str, ...]
    classification: bool
    task: Task
    truth: Tensor | None
    masks: Mapping[str, Tensor]
    scored: Tensor
    scored_as: str
    node_names: Sequence[str] | None
    output_names: Sequence[str]
    plain: Tensor | None = None

    @classmethod
    def of(cls, prediction: Prediction, graph: Data) -> PageSubject:
        """Check that both belong together.

        Args:
            prediction: for all nodes of the graph.
            graph: with ``y`` where the truth is known, -1 (or NaN, for values) where it is not.

        Raises:
            GraphError: they do not fit together, or hold numbers that are not finite.
            OptionError: the prediction is not a ``Prediction``.
        """
        check_one_kind(graph)
        mean, parts = _moments(prediction, graph)
        if not bool(mean.isfinite().all() and parts.isfinite().all()):
            raise GraphError(
                "the prediction holds numbers that are not finite", "look at model(x, edge_index)"
            )
        if prediction.task == "binary":
            mean, parts = torch.cat([1 - mean, mean], 1), parts.expand(-1, -1, 2)
        classification = prediction.task in ("classification", "binary")
        truth, known = _truth(graph, mean, prediction.task)
        masks = {name: _mask(graph, name) for name in GROUPS if graph.get(name) is not None}
        scored, scored_as = _scored(masks.get("test_mask"), known)
        return cls(
            mean=mean,
            by_source=parts,
            parts=all_parts(prediction.by_source),
            classification=classification,
            task=prediction.task,
            truth=truth,
            masks=masks,
            scored=scored,
            scored_as=scored_as,
            node_names=_names(graph, "node_names", len(mean)),
            output_names=_output_names(graph, mean.size(1), prediction.task),
            plain=_plain(prediction),
        )

    @property
    def total(self) -> Tensor:  # [nodes, outputs]
        """Variance of each answer."""
        return self.by_source.sum(0).clamp_min(0)  # sampled interactions may be negative

    @property
    def variance(self) -> Tensor:  # [nodes]
        """Variance of a node: that of its answers, added up."""
        return self.total.sum(1)

    @property
    def wrong(self) -> Tensor | None:  # [nodes] bool
        """Nodes whose most probable class is not the true one; None where no class is known."""
        if self.truth is None or not self.classification:
            return None
        return self.mean.argmax(1) != self.truth


def _moments(prediction: Prediction, graph: Data) -> tuple[Tensor, Tensor]:
    """Means and parts of the variance, ``[nodes, outputs]`` and ``[parts, nodes, outputs]``."""
    if not isinstance(prediction, Prediction):
        raise OptionError(
            f"the prediction is a {type(prediction).__name__}",
            "prediction = vg.predict(model, graph)",
        )
    names = all_parts(prediction.by_source)
    named: dict[str, Any] = {part: prediction.by_source.get(part) for part in names}
    mean, *parts = (each.cpu().double() for each in tensors(mean=prediction.mean, **named))
    if mean.dim() != 2 or len(mean) != graph.num_nodes or mean.size(1) == 0:
        raise GraphError(
            f"the prediction has shape {tuple(mean.shape)}, the graph {graph.num_nodes} nodes",
            "predict all of its nodes: vg.predict(model, graph) without nodes=",
        )
    for part, var in zip(names, parts, strict=True):
        if var.shape != mean.shape:
            raise GraphError(
                f"the prediction has shape {tuple(mean.shape)}, its variance by {part} "
                f"{tuple(var.shape)}",
                "take it as it is predicted: vg.predict(model, graph)",
            )
    return mean, torch.stack(parts)


def _plain(prediction: Prediction) -> Tensor | None:  # [nodes, outputs]
    if prediction.plain is None:
        return None
    plain = prediction.plain.detach().cpu().double()
    return torch.cat([1 - plain, plain], 1) if prediction.task == "binary" else plain


def _truth(graph: Data, mean: Tensor, task: Task) -> tuple[Tensor | None, Tensor]:
    """The truth, and for which nodes it is known, ``[nodes]`` bool.

    Of several labels, each true or not, none is compared: what a page says is about one answer.
    """
    nodes, outputs = mean.shape
    if graph.get("y") is None or task == "multilabel":
        return None, torch.zeros(nodes, dtype=torch.bool)
    (y,) = tensors(y=graph.y)
    classification = task != "regression"
    if task == "binary" and bool(((y == 0) | (y == 1) | (y == -1)).all()):
        y = y.long()  # floats, for the loss that one logit has
    if y.numel() == nodes * (1 if classification else outputs) and not y.is_complex():
        y = y.cpu().reshape((nodes,) if classification else (nodes, outputs))
        if not classification:
            return y.double(), y.isfinite().all(1)
        if not (y.is_floating_point() or y.dtype == torch.bool) and int(y.max()) < outputs:
            return y, y >= 0
    wanted = f"classes from 0 to {outputs - 1}" if classification else f"{outputs} values each"
    raise GraphError(
        f"y is {y.dtype} of shape {tuple(y.shape)}, which is no truth for {nodes} nodes",
        f"give {wanted}, -1 or NaN where they are unknown, or del graph.y",
    )


def _mask(graph: Data, name: str) -> Tensor:  # -> [nodes] bool
    (mask,) = tensors(**{name: graph[name]})
    if mask.dtype != torch.bool or mask.shape != (graph.num_nodes,):
        raise GraphError(
            f"{name} is {mask.dtype} of shape {tuple(mask.shape)} for {graph.num_nodes} nodes",
            f"graph.{name} = mask, [nodes] bool; one of several is mask[:, 0]",
        )
    return mask.cpu()


def _scored(test: Tensor | None, known: Tensor) -> tuple[Tensor, str]:  # [nodes] bool, each
    if test is not None and bool((test & known).any()):
        known = test & known
        return known, f"{int(known.sum()):,} test nodes"
    return known, f"{int(known.sum()):,} nodes with a known truth"


def _output_names(graph: Data, count: int, task: Task) -> list[str]:
    """Names of classes or labels, where the graph has them; else no and yes, or numbers."""
    names = None if task == "regression" else _names(graph, "class_names", count)
    numbers = ["no", "yes"] if task == "binary" else [str(output) for output in range(count)]
    return names or numbers


def _names(graph: Data, field: str, count: int) -> list[str] | None:
    names: object = graph.get(field)
    if names is None:
        return None
    remedy = f"give {count}, or del graph.{field}"
    if isinstance(names, str) or not isinstance(names, Iterable):
        raise GraphError(f"{field} is a {type(names).__name__}, not a list of names", remedy)
    found = list(map(str, names))
    if len(found) != count:
        raise GraphError(f"{field} has {len(found)} entries for {count}", remedy)
    text(field, "".join(found), remedy=f"correct it, or del graph.{field}")
    return found
