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
from varigraph.trust.confidence import Doubt, doubt

#: Share of the true values that intervals are to hold.
LEVEL = 0.9
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
        trust: higher for answers that are likelier to be right, ``[nodes]``.
        low: where the 90 % intervals of values begin, ``[nodes, outputs]``; None for probabilities.
        high: where they end.
        plain: answers of the network by itself, ``[nodes, outputs]``; None where unknown.
        pairs: rows that are pairs of nodes, ``[2, rows]``; None where they are the nodes.
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
    trust: Tensor
    low: Tensor | None = None
    high: Tensor | None = None
    plain: Tensor | None = None
    pairs: Tensor | None = None

    @classmethod
    def of(
        cls, prediction: Prediction, graph: Data, pairs: Tensor | None = None
    ) -> PageSubject:  # [2, rows]
        """Check that both belong together.

        Args:
            prediction: for all nodes of the graph.
            graph: with ``y`` where the truth is known, -1 (or NaN, for values) where it is not.
            pairs: of nodes that the prediction is about, if it is not about nodes; then the truth
                is ``edge_label``.

        Raises:
            GraphError: they do not fit together, or hold numbers that are not finite.
            OptionError: the prediction is not a ``Prediction``.
        """
        check_one_kind(graph)
        rows = graph.num_nodes if pairs is None else pairs.shape[1]
        mean, parts = _moments(prediction, rows, "pairs" if pairs is not None else "nodes")
        if not bool(mean.isfinite().all() and parts.isfinite().all()):
            raise GraphError(
                "the prediction holds numbers that are not finite", "look at model(x, edge_index)"
            )
        if prediction.task == "binary":
            mean, parts = torch.cat([1 - mean, mean], 1), parts.expand(-1, -1, 2)
        classification = prediction.task in ("classification", "binary")
        given = graph.get("y" if pairs is None else "edge_label")
        truth, known = _truth(given, mean, prediction.task)
        masks = {name: _mask(graph, name) for name in GROUPS if graph.get(name) is not None}
        masks = masks if pairs is None else {}
        kind = "nodes" if pairs is None else "pairs"
        scored, scored_as = _scored(masks.get("test_mask"), known, kind)
        low, high = _interval(prediction)
        names = _names(graph, "node_names", graph.num_nodes)
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
            node_names=names if pairs is None else _pair_names(pairs, names),
            output_names=_output_names(graph, mean.size(1), prediction.task, kind),
            trust=prediction.trust.detach().cpu().double(),
            low=low,
            high=high,
            plain=_plain(prediction),
            pairs=pairs,
        )

    @property
    def total(self) -> Tensor:  # [nodes, outputs]
        """Variance of each answer."""
        return self.by_source.sum(0).clamp_min(0)  # sampled interactions may be negative

    @property
    def doubt(self) -> Doubt:
        """The output of each node that the page tells about, and what its doubt consists of."""
        return doubt(self.mean, self.total, "classification" if self.classification else self.task)

    @property
    def variance(self) -> Tensor:  # [nodes]
        """Variance of the answer of each node that the page tells about."""
        return self.shown(self.total)

    def shown(self, values: Tensor) -> Tensor:  # [nodes, outputs] -> [nodes]
        """Of all outputs the one that the page tells about.

        Args:
            values: a number for each of them.
        """
        return values.gather(1, self.doubt.output[:, None])[:, 0]

    @property
    def wrong(self) -> Tensor | None:  # [nodes] bool
        """Nodes whose most probable class is not the true one; None where no class is known."""
        if self.truth is None or not self.classification:
            return None
        return self.mean.argmax(1) != self.truth


def _moments(prediction: Prediction, rows: int, kind: str) -> tuple[Tensor, Tensor]:
    """Means and parts of the variance, ``[nodes, outputs]`` and ``[parts, nodes, outputs]``."""
    if not isinstance(prediction, Prediction):
        raise OptionError(
            f"the prediction is a {type(prediction).__name__}",
            "prediction = vg.predict(model, graph)",
        )
    names = all_parts(prediction.by_source)
    named: dict[str, Any] = {part: prediction.by_source.get(part) for part in names}
    mean, *parts = (each.cpu().double() for each in tensors(mean=prediction.mean, **named))
    if mean.dim() != 2 or len(mean) != rows or mean.size(1) == 0:
        remedy = (
            "predict all of its nodes: vg.predict(model, graph) without nodes=; if it is about "
            "pairs of nodes, give links_to_score= here too"
        )
        if kind == "pairs":
            remedy = "give the same links_to_score to vg.predict and to vg.report"
        raise GraphError(
            f"the prediction has shape {tuple(mean.shape)}, the graph {rows} {kind}", remedy
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


def _interval(prediction: Prediction) -> tuple[Tensor, Tensor] | tuple[None, None]:
    """The 90 % intervals of values, ``[nodes, outputs]``; probabilities have error bars alone."""
    if prediction.task != "regression":
        return None, None
    low, high = prediction.interval(LEVEL)
    return low.detach().cpu().double(), high.detach().cpu().double()


def _pair_names(pairs: Tensor, names: Sequence[str] | None) -> list[str]:
    called = [
        [str(node) if names is None else names[node] for node in end] for end in pairs.tolist()
    ]
    return [f"{source} – {target}" for source, target in zip(*called, strict=True)]


def _truth(given: Any, mean: Tensor, task: Task) -> tuple[Tensor | None, Tensor]:
    """The truth, and for which nodes it is known, ``[nodes]`` bool.

    Of several labels, each true or not, none is compared: what a page says is about one answer.
    """
    nodes, outputs = mean.shape
    if given is None or task == "multilabel":
        return None, torch.zeros(nodes, dtype=torch.bool)
    (y,) = tensors(y=given)
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


def _scored(
    test: Tensor | None, known: Tensor, kind: str
) -> tuple[Tensor, str]:  # [nodes] bool, each
    if test is not None and bool((test & known).any()):
        known = test & known
        return known, f"{int(known.sum()):,} test {kind}"
    return known, f"{int(known.sum()):,} {kind} with a known truth"


def _output_names(graph: Data, count: int, task: Task, kind: str) -> list[str]:
    """Names of classes or labels, where the graph has them; else no and yes, or numbers."""
    called = {"classification": "class", "multilabel": "label"}.get(task, "output")
    plain = [f"{called} {output}" for output in range(count)]
    if task == "binary":
        plain = ["no", "yes"]
    if task == "regression":
        return plain if count > 1 else ["value"]
    if kind == "pairs":  # class_names are those of nodes
        return plain
    return _names(graph, "class_names", count) or plain


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
