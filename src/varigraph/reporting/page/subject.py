"""What a page is about: a prediction, its graph, and the nodes whose truth is known."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch_geometric.data import Data

from varigraph.data import check_graph
from varigraph.errors import GraphError
from varigraph.prediction.prediction import PARTS, Prediction


@dataclass(frozen=True, eq=False)
class Subject:
    """A prediction for every node of a graph, on the CPU and in float64.

    Args:
        mean: expected answers, ``[nodes, outputs]``.
        by_source: variance due to each source, ``[parts, nodes, outputs]``.
        classification: whether the answers are class probabilities.
        truth: true classes ``[nodes]`` or values ``[nodes, outputs]``; None where unknown.
        scored: nodes that are compared with the truth, ``[nodes]`` bool.
        scored_as: these nodes in words.
        node_names: what the nodes are called; None for their numbers.
        output_names: what the classes or outputs are called.
    """

    mean: Tensor
    by_source: Tensor
    classification: bool
    truth: Tensor | None
    scored: Tensor
    scored_as: str
    node_names: Sequence[str] | None
    output_names: Sequence[str]

    @classmethod
    def of(cls, prediction: Prediction, graph: Data) -> Subject:
        """Check that both belong together.

        Args:
            prediction: for all nodes of the graph.
            graph: with ``y`` where the truth is known, -1 (or NaN, for values) where it is not.

        Raises:
            GraphError: they do not fit together, or hold numbers that are not finite.
        """
        check_graph(graph)
        mean = prediction.mean.detach().cpu().double()
        parts = torch.stack([prediction.by_source[part].detach().cpu().double() for part in PARTS])
        _check_shape(mean, graph)
        if not bool(mean.isfinite().all() and parts.isfinite().all()):
            raise GraphError(
                "the prediction holds numbers that are not finite", "look at model(x, edge_index)"
            )
        classification = prediction.task == "classification"
        truth, known = _truth(graph, mean, classification=classification)
        scored, scored_as = _scored(graph, known)
        return cls(
            mean=mean,
            by_source=parts,
            classification=classification,
            truth=truth,
            scored=scored,
            scored_as=scored_as,
            node_names=_names(graph, "node_names", len(mean)),
            output_names=(_names(graph, "class_names", mean.size(1)) if classification else None)
            or [str(output) for output in range(mean.size(1))],
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


def _check_shape(mean: Tensor, graph: Data) -> None:
    if mean.dim() != 2 or len(mean) != graph.num_nodes or mean.size(1) == 0:
        raise GraphError(
            f"the prediction has shape {tuple(mean.shape)}, the graph {graph.num_nodes} nodes",
            "predict all of its nodes: vg.predict(model, graph) without nodes=",
        )


def _truth(graph: Data, mean: Tensor, *, classification: bool) -> tuple[Tensor | None, Tensor]:
    """The truth, and for which nodes it is known, ``[nodes]`` bool."""
    y, (nodes, outputs) = graph.get("y"), mean.shape
    if y is None:
        return None, torch.zeros(nodes, dtype=torch.bool)
    if y.numel() == nodes * (1 if classification else outputs):
        y = y.detach().cpu().reshape((nodes,) if classification else (nodes, outputs))
        if not classification:
            return y.double(), y.isfinite().all(1)
        if not (y.is_floating_point() or y.dtype == torch.bool) and int(y.max()) < outputs:
            return y, y >= 0
    wanted = f"classes from 0 to {outputs - 1}" if classification else f"{outputs} values each"
    raise GraphError(
        f"y is {y.dtype} of shape {tuple(y.shape)}, which is no truth for {nodes} nodes",
        f"give {wanted}, -1 or NaN where they are unknown, or del graph.y",
    )


def _scored(graph: Data, known: Tensor) -> tuple[Tensor, str]:  # [nodes] bool -> [nodes] bool
    mask = graph.get("test_mask")
    if mask is not None and mask.shape == known.shape and bool((mask.cpu() & known).any()):
        known = mask.cpu() & known
        return known, f"{int(known.sum()):,} test nodes"
    return known, f"{int(known.sum()):,} nodes with a known truth"


def _names(graph: Data, field: str, count: int) -> list[str] | None:
    names: Sequence[Any] | None = graph.get(field)
    if names is None:
        return None
    if len(names) != count:
        raise GraphError(
            f"{field} has {len(names)} entries for {count}", f"give {count}, or del graph.{field}"
        )
    return list(map(str, names))
