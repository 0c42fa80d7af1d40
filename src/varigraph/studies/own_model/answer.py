"""What a network of the user's own answers, with the time it took and what to know about it."""

from __future__ import annotations

import time
import warnings
from dataclasses import dataclass
from typing import Any

from torch import Tensor

from varigraph.prediction import Prediction, predict
from varigraph.prediction.masked import NO_DROPOUT
from varigraph.prediction.prediction import PARTS
from varigraph.studies.own_model.node_choice import chosen_nodes
from varigraph.studies.own_model.subject import Subject

WITHOUT_DROPOUT = (
    "the network has no dropout, so its weights are taken as certain; --dropout 0.1 injects some, "
    "--samples 0 says that this is meant"
)


@dataclass(frozen=True, eq=False)
class Answer:
    """A prediction and what belongs to it.

    Args:
        subject: the network and the graph.
        nodes: numbers of the nodes that it is about.
        prediction: for these nodes.
        seconds: that it took.
        notes: what a reader must know.
    """

    subject: Subject
    nodes: list[int]
    prediction: Prediction
    seconds: float
    notes: tuple[str, ...]

    @property
    def method(self) -> tuple[str, str | None]:
        """The method, and why it was taken where that was left open."""
        name, _, why = self.prediction.method.partition(": ")
        return name, why or None

    @property
    def variance(self) -> dict[str, float]:
        """Total and parts: summed over classes, averaged over nodes."""
        parts = {part: _mean_sum(self.prediction.by_source[part]) for part in PARTS}
        return {"total": _mean_sum(self.prediction.total), **parts}

    @property
    def shares(self) -> dict[str, float] | None:
        """Parts of the variance, out of 1; None where there is no variance."""
        found = self.variance
        total = found["total"]
        return {part: found[part] / total for part in PARTS} if total > 0 else None

    def record(self) -> dict[str, Any]:
        """The summary, as JSON has it."""
        method, reason = self.method
        return {
            "title": self.subject.title,
            "method": method,
            "reason": reason,
            "task": self.prediction.task,
            "samples": self.prediction.samples,
            "nodes": len(self.nodes),
            "outputs": _outputs(self.prediction.mean),
            "mean_variance": self.variance,
            "shares": self.shares,
            "seconds": round(self.seconds, 3),
            "notes": list(self.notes),
        }


def answered(subject: Subject, *, nodes: str | None = None, **options: Any) -> Answer:
    """Predict with error bars.

    Args:
        subject: a network and its graph.
        nodes: see :func:`~varigraph.studies.own_model.node_choice.chosen_nodes`.
        options: of :func:`varigraph.predict`; None for what the run or the library has.

    Raises:
        VarigraphError: as :func:`varigraph.predict` does.
    """
    assert subject.graph is not None
    asked = {name: value for name, value in options.items() if value is not None}
    chosen = chosen_nodes(nodes, subject.graph)
    begun = time.perf_counter()
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        prediction = predict(
            subject.model,
            subject.graph,
            forward=subject.forward,
            nodes=chosen if nodes is not None else None,
            **{**(subject.options or {}), **asked},
        )
    seconds = time.perf_counter() - begun
    warned = [_spoken(str(each.message)) for each in said]
    notes = tuple(dict.fromkeys([*subject.notes, *warned]))
    return Answer(subject, chosen, prediction, seconds, notes)


def _spoken(warning: str) -> str:
    return WITHOUT_DROPOUT if warning == NO_DROPOUT else warning


def _mean_sum(values: Tensor) -> float:
    return float(values.double().reshape(len(values), -1).sum(dim=1).mean())


def _outputs(mean: Tensor) -> int:
    return int(mean.reshape(len(mean), -1).shape[1])
