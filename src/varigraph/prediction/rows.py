"""What the rows of an answer are about: which nodes, what they are called, who their neighbours."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from torch import Tensor


@dataclass(frozen=True, eq=False)
class Rows:
    """The rows of an answer.

    Args:
        nodes: number of the node that each row is about, ``[rows]``; None where rows are counted
            as nodes are.
        names: what all nodes are called; None for their numbers.
        outputs: what the classes, labels or values are called; in a binary task no and yes; None
            for their numbers.
        edge_index: the links of the graph, ``[2, edges]``; None where rows are not its nodes.
        trained_on: nodes that the network was trained on, ``[nodes]`` bool, where that is known.
    """

    nodes: Tensor | None = None
    names: Sequence[str] | None = None
    outputs: Sequence[str] | None = None
    edge_index: Tensor | None = None
    trained_on: Tensor | None = None

    def node(self, row: int) -> int:
        """The number of the node that a row is about."""
        return row if self.nodes is None else int(self.nodes[row])

    def name(self, row: int) -> str:
        """What the node of a row is called."""
        node = self.node(row)
        return f"node {node}" if self.names is None else str(self.names[node])

    def output(self, output: int, task: str) -> str:
        """What an answer is called."""
        if self.outputs is not None:
            return str(self.outputs[-1 if task == "binary" else output])
        kind = {"classification": "class", "multilabel": "label"}.get(task, "output")
        return "yes" if task == "binary" else f"{kind} {output}"
