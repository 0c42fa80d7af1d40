"""The number whose variance is divided: of which node, which output, on which scale."""

from __future__ import annotations

from typing import Literal

from torch import Tensor
from torch_geometric.data import Data

from varigraph.data.graph_parts import called
from varigraph.errors import OptionError
from varigraph.options import one_of, whole
from varigraph.prediction.tasks import Task, probabilities

Scale = Literal["probability", "logit", "value"]
#: What the number asked about can be, the default first.
SCALES: dict[Task, tuple[Scale, ...]] = {
    "classification": ("probability", "logit"),
    "binary": ("probability", "logit"),
    "multilabel": ("probability", "logit"),
    "regression": ("value",),
}


def number_of(row: Tensor, column: int, scale: Scale, task: Task) -> Tensor:  # [outputs] -> []
    """The number, from what a network says of the node."""
    return (probabilities(row, task) if scale == "probability" else row)[column]


def place_of_node(node: int | str, data: Data) -> int:
    """The node by its number, or by its name in ``data.node_names``."""
    if isinstance(node, str):
        return called([node], data)[0]
    last = len(data.x) - 1
    return whole("node", node, most=last, remedy=f"count from 0 to {last}")


def column_of(output: int | None, row: Tensor, scale: Scale) -> int:  # [outputs]
    """The output that is asked for; the likeliest class where none is."""
    if output is not None:
        last = len(row) - 1
        return whole("output", output, most=last, remedy=f"count from 0 to {last}")
    if scale == "value" and len(row) > 1:
        raise OptionError(f"the model has {len(row)} outputs per node", "say which: output=0")
    return int(row.argmax())


def scale_of(task: Task, of: Scale | None) -> Scale:
    """The scale that is asked for, or that of the task."""
    known = SCALES[one_of("task", task, list(SCALES))]
    return known[0] if of is None else one_of("of", of, known)
