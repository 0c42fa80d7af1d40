"""What ``predict`` says of the answers whose variance is to be divided."""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

import torch
from torch import Tensor

from varigraph.choices import Task
from varigraph.errors import GraphError, OptionError
from varigraph.options import one_of, whole
from varigraph.prediction.first_order.method import FirstOrder
from varigraph.prediction.logits import divided
from varigraph.prediction.passes import NO_DROPOUT
from varigraph.prediction.predict import METHODS
from varigraph.prediction.prediction import Prediction
from varigraph.prediction.question import Question, check_answer
from varigraph.prediction.sources.source import considered
from varigraph.prediction.tasks import SIGMOIDS
from varigraph.quantify.shares import Scale

#: What the number asked about can be, the default first.
SCALES: dict[Task, tuple[Scale, ...]] = {
    "classification": ("probability", "logit"),
    "binary": ("probability", "logit"),
    "multilabel": ("probability", "logit"),
    "regression": ("value",),
}
#: What the names of methods start with whose responses are known in closed form.
CLOSED = "first-order"


def scale_of(task: Task, of: Scale | None) -> Scale:
    """The scale that is asked for, or that of the task."""
    known = SCALES[one_of("task", task, list(SCALES))]
    return known[0] if of is None else one_of("of", of, known)


@dataclass(frozen=True, eq=False)
class Answered:
    """Answers of some nodes on the scale that is asked about.

    Args:
        rows: the nodes, ``[rows]``.
        mean: ``[rows, outputs]``.
        variance: of all sources together, of the same shape.
        by_source: of each part, never negative.
        std_error: standard errors of the parts; None where nothing was drawn.
        method: how they came about.
        task: what the outputs mean.
        scale: what the numbers are.
    """

    rows: Tensor
    mean: Tensor
    variance: Tensor
    by_source: Mapping[str, Tensor]
    std_error: Mapping[str, Tensor] | None
    method: str
    task: Task
    scale: Scale

    def output(self, output: int | None) -> int | None:
        """The output that is asked for, if any.

        Raises:
            OptionError: there is no such output, or values of several kinds would be added up.
        """
        count = self.mean.shape[1]
        if output is not None:
            last = count - 1
            return whole("output", output, most=last, remedy=f"count from 0 to {last}")
        if self.scale == "value" and count > 1:
            raise OptionError(f"the model has {count} outputs per node", "say which: output=0")
        return None

    def directions(self, rows: slice) -> Tensor:  # -> [rows, answers, outputs]
        r"""How answers follow outputs, up to a factor: for classes :math:`e_i - \bar p`."""
        mean = self.mean[rows]
        eye = torch.eye(mean.shape[1], dtype=mean.dtype, device=mean.device)
        if self.scale != "probability" or self.task in SIGMOIDS:
            return eye.expand(len(mean), -1, -1)
        return eye - mean[:, None]


@contextmanager
def without_dropout_notice() -> Iterator[None]:
    """Whoever asks for causes need not be told that weights are none."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=re.escape(NO_DROPOUT))
        yield


def predicted(question: Question, method: str) -> Prediction:
    """What ``predict`` answers."""
    for source in considered(question):
        source.check_question(question)
    with without_dropout_notice():
        found = METHODS[method](question)
    check_answer(found)
    return found


def answered(
    found: Prediction, nodes: Tensor | None, network: FirstOrder | None, scale: Scale
) -> Answered:
    """The answers for some nodes on the scale that is asked about.

    Args:
        found: what ``predict`` says.
        nodes: the nodes, ``[rows]``; None for all that it has answers for.
        network: the linearised network; None where there is no closed form.
        scale: what is asked about.

    Raises:
        OptionError: the prediction has no answer for a node, or none on this scale.
    """
    rows, known = _rows(found, nodes)
    errors = found.std_error
    mean, parts = found.mean[rows], {part: var[rows] for part, var in found.by_source.items()}
    drawn = None if errors is None else {part: e[rows] for part, e in errors.by_source.items()}
    if scale == "logit":
        mean, parts = _of_logits(found, rows, known, network)
        drawn = None
    return Answered(
        rows=known,
        mean=mean.double(),
        variance=sum(parts.values(), torch.zeros_like(mean)).double().clamp_min(0),
        by_source={part: var.double().clamp_min(0) for part, var in parts.items()},
        std_error=drawn,
        method=found.method,
        task=found.task,
        scale=scale,
    )


def _rows(found: Prediction, nodes: Tensor | None) -> tuple[Tensor, Tensor]:
    """Rows of a prediction, and the nodes that they are about."""
    known = found.rows.nodes
    known = torch.arange(len(found.mean)) if known is None else known.cpu()
    if nodes is None:
        return torch.arange(len(known)), known
    place = torch.full((int(known.max()) + 1,), -1).index_put_((known,), torch.arange(len(known)))
    asked = nodes.cpu()
    missing = asked[(asked >= len(place)) | (place[asked.clamp_max(len(place) - 1)] < 0)]
    if len(missing) > 0:
        raise OptionError(
            f"the prediction has no answer for node {int(missing[0])}",
            "predict for it too: vg.predict(..., nodes=None)",
        )
    return place[asked], asked


def _of_logits(
    found: Prediction, rows: Tensor, nodes: Tensor, network: FirstOrder | None
) -> tuple[Tensor, dict[str, Tensor]]:
    """The same answers before their softmax, divided over sources."""
    if network is None:
        raise OptionError(
            f"logits are divided over sources in closed form, and here there is none: "
            f"{found.method}",
            'of="probability", or task="regression" with a network that ends in its logits',
        )
    with torch.no_grad():
        block = network.block(nodes.to(network.rows.device))
    parts = divided(block)
    total, var = sum(parts.values(), torch.zeros_like(block.mean)), found.logits.var[rows]
    factor = torch.where(total > 0, var / total, 1)
    return found.logits.mean[rows], {part: factor * each for part, each in parts.items()}


def refuse_certain(question: Question, found: Prediction) -> None:
    """Raises if nothing is uncertain; whether dropout acts is known once the network was run.

    Raises:
        GraphError: there is nothing to divide.
    """
    data = [source for source in considered(question) if not source.masks]
    if not any(source.uncertain(question) for source in data) and not bool(found.total.any()):
        raise GraphError(
            "nothing in the data is uncertain, nor in the network: there is no variance to divide",
            "data.x_var = 0.1 (noise of the features) or data.edge_prob = ... (chances of the "
            'links, below 1, read with another option than links="weight")',
        )
