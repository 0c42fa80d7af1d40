"""What is asked about a network and its graph: the nodes to answer for, the answer, an audit."""

from __future__ import annotations

import time
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch_geometric.data import Data

from varigraph.data.graphs import called
from varigraph.errors import OptionError
from varigraph.prediction import Calibrator, Prediction, predict
from varigraph.prediction.passes import NO_DROPOUT
from varigraph.quantify import Audit, audit
from varigraph.studies.own_model.subject import Subject

NODES = "give numbers from 0 (--nodes 0,5,7), names, a mask (--nodes test) or a file of them"


def chosen_nodes(text: str | None, graph: Data) -> list[int]:
    """Numbers of nodes; all of them where nothing is said.

    Where the graph has ``node_names``, nodes go by these names and not by numbers: a name may be
    a number itself.

    Args:
        text: a file with one node per line; the name of a mask, with or without ``_mask``; or nodes
            with commas between them.
        graph: that has them.

    Raises:
        OptionError: naming the first node that is not there.
    """
    count = int(graph.num_nodes)
    if text is None:
        return list(range(count))
    masks = [text, f"{text}_mask"]
    mask = next((graph[name] for name in masks if _is_mask(graph.get(name), count)), None)
    if mask is not None:
        found = [int(node) for node in mask.nonzero().flatten()]
    else:
        found = node_numbers(_words(text), graph)
    if not found:
        raise OptionError(f"--nodes {text} names no node", NODES)
    return found


def _is_mask(value: object, count: int) -> bool:
    return isinstance(value, Tensor) and value.dtype == torch.bool and value.shape == (count,)


def _words(text: str) -> list[str]:
    path = Path(text).expanduser()
    try:
        given = path.read_text(encoding="utf-8").splitlines() if path.is_file() else None
    except (OSError, UnicodeDecodeError) as error:
        raise OptionError(f"--nodes {text} cannot be read: {error}", NODES) from error
    words = text.split(",") if given is None else given
    return [word.strip() for word in words if word.strip()]


def node_numbers(words: list[str], graph: Data, *, remedy: str = NODES) -> list[int]:
    """Numbers of nodes that go by their names or, where the graph has none, by numbers.

    Args:
        words: one for each node.
        graph: that has them.
        remedy: how to name nodes.

    Raises:
        OptionError: naming the first node that is not there.
    """
    if graph.get("node_names") is not None:
        return called(words, graph)
    count = int(graph.num_nodes)
    try:
        numbers = [int(word) for word in words]
    except ValueError as error:
        odd = next(word for word in words if not word.lstrip("-").isdecimal())
        problem = f"{odd} is no number, and the graph has no node_names"
        raise OptionError(problem, remedy) from error
    outside = [number for number in numbers if not 0 <= number < count]
    if outside:
        raise OptionError(
            f"there is no node {outside[0]} among {count}", f"count from 0 to {count - 1}"
        )
    return numbers


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
        """The method, and why it was chosen where that was left open."""
        name, _, why = self.prediction.method.partition(": ")
        return name, why or None

    @property
    def variance(self) -> dict[str, float]:
        """Total and parts: summed over classes, averaged over nodes."""
        parts = {part: _mean_sum(var) for part, var in self.prediction.by_source.items()}
        return {"total": _mean_sum(self.prediction.total), **parts}

    @property
    def shares(self) -> dict[str, float] | None:
        """Parts of the variance, out of 1; None where there is no variance."""
        found = self.variance
        total = found.pop("total")
        return {part: var / total for part, var in found.items()} if total > 0 else None

    def record(self) -> dict[str, Any]:
        """The summary, as a JSON object."""
        method, reason = self.method
        return {
            "title": self.subject.title,
            "method": method,
            "reason": reason,
            "task": self.prediction.task,
            "samples": self.prediction.samples,
            "nodes": len(self.nodes),
            "outputs": self.prediction.mean.reshape(len(self.nodes), -1).shape[1],
            "mean_variance": self.variance,
            "shares": self.shares,
            "seconds": round(self.seconds, 3),
            "notes": list(self.notes),
        }


def answered(
    subject: Subject,
    *,
    nodes: str | None = None,
    calibrator: Path | None = None,
    **options: Any,
) -> Answer:
    """Predict with error bars.

    Args:
        subject: a network and its graph.
        nodes: see :func:`~varigraph.studies.own_model.answers.chosen_nodes`.
        calibrator: file of what makes the answers hold; none if left out.
        options: of :func:`varigraph.predict`; None for what the run or the library has.

    Raises:
        VarigraphError: as :func:`varigraph.predict` does.
    """
    graph = subject.graph_needed()
    asked = {name: value for name, value in options.items() if value is not None}
    chosen = chosen_nodes(nodes, graph)
    learned = None if calibrator is None else Calibrator.load(calibrator)
    begun = time.perf_counter()
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        prediction = predict(
            subject.model,
            graph,
            forward=subject.forward,
            nodes=chosen if nodes is not None else None,
            **{**(subject.options or {}), **asked},
        )
    if learned is not None:
        prediction = learned.apply(prediction)
    seconds = time.perf_counter() - begun
    warned = [str(each.message) for each in said]
    warned = [WITHOUT_DROPOUT if text == NO_DROPOUT else text for text in warned]
    notes = tuple(dict.fromkeys([*subject.notes, *warned]))
    return Answer(subject, chosen, prediction, seconds, notes)


def audited(subject: Subject, *, nodes: str | None = None, **options: Any) -> Audit:
    """A method against brute force.

    Args:
        subject: a network and its graph.
        nodes: to compare, see :func:`~varigraph.studies.own_model.answers.chosen_nodes`.
        options: of :func:`varigraph.audit`; None for what the run or the library has.

    Raises:
        VarigraphError: as :func:`varigraph.audit` does.
    """
    graph, run = subject.graph_needed(), dict(subject.options or {})
    if "samples" in run:
        run["masks"] = run.pop("samples")
    asked = {name: value for name, value in options.items() if value is not None}
    return audit(
        subject.model,
        graph,
        forward=subject.forward,
        nodes=None if nodes is None else chosen_nodes(nodes, graph),
        **{**run, **asked},
    )


def _mean_sum(values: Tensor) -> float:
    return float(values.double().reshape(len(values), -1).sum(dim=1).mean())
