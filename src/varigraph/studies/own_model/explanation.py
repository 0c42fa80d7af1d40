"""What makes the answers of a user's own network uncertain, and that as a table."""

from __future__ import annotations

from typing import Any

import numpy as np
from torch_geometric.data import Data

from varigraph.errors import OptionError
from varigraph.prediction.table import Column
from varigraph.quantify import Attribution, GraphAttribution, attribute
from varigraph.quantify.shares import (
    Cause,
    ColumnShare,
    FeatureShare,
    LinkShare,
    NodeShare,
    SourceShare,
)
from varigraph.studies.own_model.answers import chosen_nodes, node_numbers
from varigraph.studies.own_model.subject import Subject

#: What a cause is called in the table.
KINDS = {
    SourceShare: "source",
    FeatureShare: "feature",
    ColumnShare: "feature",
    NodeShare: "node",
    LinkShare: "link",
}


def explanation(
    subject: Subject,
    *,
    node: str | None = None,
    nodes: str | None = None,
    output: str | None = None,
    **options: Any,
) -> Attribution | GraphAttribution:
    """The variance of an answer, or of all answers, divided over what caused it.

    Args:
        subject: a network and its graph.
        node: by its number or, where the graph has ``node_names``, by its name; all if left out.
        nodes: without a node, those whose answers count, see
            :func:`~varigraph.studies.own_model.answers.chosen_nodes`.
        output: a class by its number or name, or the number of a column.
        options: of :func:`varigraph.attribute`; None for what the run or the library has.

    Raises:
        VarigraphError: as :func:`varigraph.attribute` does.
    """
    graph = subject.graph_needed()
    if node is not None and nodes is not None:
        raise OptionError("--node and --nodes are both given", "give one of the two")
    asked: dict[str, Any] = {
        **(subject.options or {}),
        **{name: value for name, value in options.items() if value is not None},
        "output": None if output is None else output_number(output, graph),
        "forward": subject.forward,
    }
    if node is None:
        chosen = None if nodes is None else chosen_nodes(nodes, graph)
        return attribute(subject.model, graph, nodes=chosen, **asked)
    (number,) = node_numbers([node], graph, remedy="count from 0: --node 7")
    return attribute(subject.model, graph, number, **asked)


def output_number(text: str, graph: Data) -> int:
    """The number of a class or column that goes by its name or number.

    Args:
        text: what the user wrote.
        graph: whose ``class_names`` count.

    Raises:
        OptionError: if no class has that name.
    """
    names = [str(name) for name in graph.get("class_names") or ()]
    if text in names:
        return names.index(text)
    if text.isdecimal():
        return int(text)
    known = f"one of {', '.join(names)}" if names else "a number from 0: --output 0"
    raise OptionError(f"no output is called {text}", known)


def cause_columns(found: Attribution | GraphAttribution) -> dict[str, Column]:
    """A table of causes, those of each kind largest first; features of a node are in it as well.

    ``cause`` is source, feature, node or link; ``what`` has it in words; ``node`` and ``feature``
    or ``from``, ``to`` and ``probability`` say which; then ``variance`` and ``share``.

    Args:
        found: what caused what.
    """
    causes: list[Cause] = [*found.sources, *found.features, *found.nodes, *found.links]
    return {
        "cause": [KINDS[type(cause)] for cause in causes],
        "what": [found.names.of(cause) for cause in causes],
        "node": _numbers(causes, "node"),
        "feature": _numbers(causes, "feature"),
        "from": _numbers(causes, "source"),
        "to": _numbers(causes, "target"),
        "probability": _numbers(causes, "probability"),
        "variance": np.array([cause.variance for cause in causes]),
        "share": np.array([cause.share for cause in causes]),
    }


def _numbers(causes: list[Cause], name: str) -> list[str]:
    """A field of those causes that have it; empty elsewhere."""
    return [f"{getattr(cause, name, '')}" for cause in causes]
