"""A user's own network, calibrated on held-out nodes and judged on test nodes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from varigraph import metrics
from varigraph.errors import GraphError
from varigraph.prediction import Calibrator, Prediction, calibrate
from varigraph.studies.own_model.answers import answered, chosen_nodes
from varigraph.studies.own_model.subject import Subject

NO_TEST = "the graph has no test_mask with known answers: nothing was judged"
ALL_ALIKE = (
    "the errors of these nodes do not grow with their error bars: calibrated, all answers have the "
    "same one; which inputs to improve is said by the uncalibrated ones"
)


@dataclass(frozen=True, eq=False)
class Calibration:
    """What was learned, and what it is worth.

    Args:
        title: network and graph, in a few words.
        calibrator: what was learned.
        learned_from: number of nodes.
        judged: number of test nodes that were judged.
        before: how well the answers for these hold, by the name of the measure.
        after: the same, calibrated.
        notes: what a reader must know.
    """

    title: str
    calibrator: Calibrator
    learned_from: int
    judged: int
    before: dict[str, float] | None
    after: dict[str, float] | None
    notes: tuple[str, ...]

    @property
    def words(self) -> str:
        """What the calibrator does."""
        learned = self.calibrator.learned
        if self.calibrator.kind == "residual":
            pairs = learned["variance"].tolist()
            return "; ".join(f"variance x {scale:.3g} + {own:.3g}" for scale, own in pairs)
        by_node = ", and one by node" if self.calibrator.kind == "graph" else ""
        return f"temperature {1 / float(learned['scale']):.3g}{by_node}"

    def record(self) -> dict[str, Any]:
        """All of it, as a JSON object."""
        return {
            "title": self.title,
            "kind": self.calibrator.kind,
            "learned": {name: part.tolist() for name, part in self.calibrator.learned.items()},
            "learned_from": self.learned_from,
            "judged": self.judged,
            "before": self.before,
            "after": self.after,
            "notes": list(self.notes),
        }


def calibrated(subject: Subject, *, nodes: str, kind: str, **options: Any) -> Calibration:
    """Predict for all nodes, learn from some, judge on test nodes that were not learned from.

    Args:
        subject: a network and its graph, which has ``y``.
        nodes: to learn from, see :func:`~varigraph.studies.own_model.answers.chosen_nodes`.
        kind: of calibrator, see :func:`varigraph.calibrate`.
        options: of :func:`varigraph.predict`.

    Raises:
        VarigraphError: as :func:`varigraph.calibrate` does.
    """
    graph = subject.graph_needed()
    if graph.get("y") is None:
        raise GraphError(
            "the graph has no y, the truth to learn from", "y in the file: -1 or NaN where unknown"
        )
    chosen = chosen_nodes(nodes, graph)
    found = answered(subject, **options)
    calibrator = calibrate(found.prediction, graph.y, nodes=chosen, kind=kind)  # type: ignore[arg-type] # checked there
    notes = (*found.notes, *_all_alike(calibrator))
    held_out = _test_nodes(graph.y, graph.get("test_mask"), chosen)
    if not len(held_out):
        untested = (*notes, NO_TEST)
        return Calibration(subject.title, calibrator, len(chosen), 0, None, None, untested)
    after = calibrator.apply(found.prediction)
    before, after_all = (_measures(each, graph.y, held_out) for each in (found.prediction, after))
    return Calibration(
        subject.title, calibrator, len(chosen), len(held_out), before, after_all, notes
    )


def _all_alike(calibrator: Calibrator) -> tuple[str, ...]:
    """A note where error bars no longer differ from node to node."""
    alike = calibrator.kind == "residual" and not bool(calibrator.learned["variance"][:, 0].any())
    return (ALL_ALIKE,) if alike else ()


def _test_nodes(y: Tensor, mask: Tensor | None, learned_from: list[int]) -> Tensor:  # [some]
    """Test nodes whose truth is known, and that nothing was learned from."""
    if mask is None:
        return torch.zeros(0, dtype=torch.long)
    rows = y.reshape(len(y), -1)
    known = rows.isfinite().all(1) if y.is_floating_point() else (rows >= 0).all(1)
    judged = mask & known
    judged[learned_from] = False
    return judged.nonzero().flatten()


def _measures(prediction: Prediction, y: Tensor, nodes: Tensor) -> dict[str, float]:
    mean, total = prediction.mean[nodes], prediction.total[nodes].clamp_min(0)
    if prediction.task == "regression":
        truth = y[nodes].reshape(mean.shape)
        return {
            "within 90 % intervals": metrics.interval_coverage(mean, total, truth),
            "mean error bar": float(total.sqrt().mean()),
            "root mean square error": float((mean - truth).square().mean().sqrt()),
        }
    if prediction.task != "classification":
        truth = y[nodes].reshape(mean.shape)
        return {
            "log loss": metrics.log_loss(mean.flatten(), truth.flatten().bool()),
            "calibration error (ECE)": metrics.binary_ece(mean.flatten(), truth.flatten().bool()),
        }
    return {
        "accuracy": metrics.accuracy(mean, y[nodes]),
        "mean confidence": float(mean.amax(1).mean()),
        "calibration error (ECE)": metrics.ece(mean, y[nodes]),
        "cross entropy": metrics.cross_entropy(mean, y[nodes]),
    }
