"""Everything that is measured about a prediction at once, the plain network beside it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from html import escape
from typing import Any, Protocol

import torch
from torch import Tensor

from varigraph.errors import GraphError, OptionError
from varigraph.metrics.calibration import binary_ece, ece
from varigraph.metrics.classification import accuracy, binary_brier, brier, cross_entropy, log_loss
from varigraph.metrics.error_spotting import auroc, risk_coverage
from varigraph.metrics.inputs import Numbers, tensors
from varigraph.metrics.variances import gaussian_nll, variance_calibration

LEVEL = 0.9
TINY = 1e-6


class About(Protocol):
    """Which nodes the rows of a prediction are about."""

    @property
    def nodes(self) -> Tensor | None:
        """Their numbers; None where rows are counted as nodes are."""

    @property
    def names(self) -> Sequence[str] | None:
        """What all nodes are called; None for their numbers."""


class Predicted(Protocol):
    """What is looked at: a :class:`varigraph.Prediction` has it."""

    @property
    def mean(self) -> Tensor:
        """Expected answers, ``[rows, outputs]``."""

    @property
    def total(self) -> Tensor:
        """Their variances, ``[rows, outputs]``."""

    @property
    def trust(self) -> Tensor:
        """Higher for answers that are likelier to be right, ``[rows]``."""

    @property
    def plain(self) -> Tensor | None:
        """The network's own answers, ``[rows, outputs]``."""

    @property
    def task(self) -> str:
        """What the answers mean."""

    @property
    def rows(self) -> About:
        """What the rows are about."""

    def interval(self, level: float) -> tuple[Tensor, Tensor]:
        """Both ends of intervals, ``[rows, outputs]`` each."""


class Scores(Mapping[str, float]):
    """Scores by name; printed, they are a table with the plain network beside.

    Args:
        ours: of the prediction.
        plain: of the network by itself, where it has them.
        judged: how many nodes were looked at.
    """

    def __init__(self, ours: dict[str, float], plain: dict[str, float], judged: int) -> None:
        self._ours, self.plain, self.judged = ours, plain, judged

    def __getitem__(self, name: str) -> float:
        return self._ours[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._ours)

    def __len__(self) -> int:
        return len(self._ours)

    @property
    def _cells(self) -> list[tuple[str, str, str]]:
        head = [(f"{self.judged:,} nodes", "ours", "plain network" if self.plain else "")]
        return head + [
            (name, f"{value:.4g}", f"{self.plain[name]:.4g}" if name in self.plain else "")
            for name, value in self._ours.items()
        ]

    def __repr__(self) -> str:
        widths = [max(map(len, column)) for column in zip(*self._cells, strict=True)]
        lines = ("  ".join(map(str.ljust, row, widths)).rstrip() for row in self._cells)
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        rows = (
            "".join(f"<td>{escape(text)}</td>" for text in row)  # a row of a table
            for row in self._cells
        )
        return f"<table>{''.join(f'<tr>{row}</tr>' for row in rows)}</table>"


def score(prediction: Predicted, y: Numbers, *, nodes: Any = None) -> Scores:
    """Everything at once: how right the answers are, how honest, and whether trust finds errors.

    Of classes: ``accuracy``, ``cross_entropy``, ``brier``, ``ece``, and of trust as a finder of
    errors ``auroc`` (absent where all answers are right or all wrong) and ``risk_coverage_area``.
    Of labels, yes or no included: the same of all labels together, without the two of trust. Of
    values: ``rmse``, ``gaussian_nll``, ``ence``, and ``held``, the share within ``interval(0.9)``.

    Args:
        prediction: of ``vg.predict``, calibrated or not.
        y: the truth of every node, ``data.y``, or of every row of the prediction.
        nodes: which nodes to judge, as a mask, as numbers or by name; by default all, and of
            classes those whose truth is known, 0 or more.

    Raises:
        GraphError: the truth does not fit the prediction.

    Example:
        >>> import varigraph as vg
        >>> graph = vg.load("cora")
        >>> pred = vg.predict(vg.paper_network(graph), graph, method="diagonal", samples=2)
        >>> found = vg.metrics.score(pred, graph.y, nodes=graph.test_mask)
        >>> list(found)
        ['accuracy', 'cross_entropy', 'brier', 'ece', 'auroc', 'risk_coverage_area']
        >>> found["accuracy"] == found.plain["accuracy"] or abs(found["accuracy"]) <= 1
        True
    """
    rows, truth = _judged(prediction, y, nodes)
    judges = {"classification": _classes, "regression": _values}
    judge = judges.get(prediction.task, _labels)
    ours = judge(prediction, prediction.mean[rows], truth, rows)
    own = prediction.plain
    plain = {} if own is None else judge(None, own[rows], truth, rows)
    return Scores(ours, plain, len(rows))


def _judged(prediction: Predicted, y: Numbers, nodes: Any) -> tuple[Tensor, Tensor]:
    """Rows to look at, and what is true of them."""
    (truth,) = tensors(y=y)
    mean, about = prediction.mean, prediction.rows.nodes
    truth, count = truth.to(mean.device), len(truth)
    numbers = torch.arange(len(mean), device=mean.device) if about is None else about
    if count == len(mean):  # of every row
        of_row = truth
    elif about is not None and count > int(numbers.max()):
        of_row = truth[numbers]
    else:
        raise GraphError(
            f"y has {count:,} entries, the prediction {len(mean):,} rows",
            "give the truth of every node: data.y",
        )
    chosen = _chosen(_numbered(nodes, prediction.rows.names), numbers)
    if prediction.task == "classification":
        if of_row.is_floating_point() or of_row.dim() != 1:
            raise GraphError(
                f"y is {of_row.dtype} of shape {tuple(of_row.shape)}, not a class for each node",
                "number the classes from 0: data.y.long()",
            )
        chosen = chosen & (of_row >= 0)
    rows = chosen.nonzero().flatten()
    if len(rows) == 0:
        raise OptionError("there is no node to judge", "nodes=data.test_mask")
    known = of_row[rows]
    if prediction.task != "classification":
        if known.numel() != mean[rows].numel():
            raise GraphError(
                f"y has shape {tuple(truth.shape)} for {mean.shape[1]} outputs",
                "give a value for each of them: [nodes, outputs]",
            )
        known = known.reshape(mean[rows].shape)
    return rows, known


def _numbered(nodes: Any, names: Sequence[str] | None) -> Any:
    """Numbers in the place of names."""
    if isinstance(nodes, Tensor) or not isinstance(nodes, Sequence):
        return nodes
    if not any(isinstance(node, str) for node in nodes):
        return nodes
    place = {name: number for number, name in enumerate(names or ())}
    unknown = [node for node in nodes if node not in place]
    if unknown:
        raise OptionError(
            f"there is no node called {unknown[0]!r}", "give names of data.node_names"
        )
    return [place[node] for node in nodes]


def _chosen(nodes: Any, numbers: Tensor) -> Tensor:  # [rows] bool
    if nodes is None:
        return torch.ones_like(numbers, dtype=torch.bool)
    (given,) = tensors(nodes=nodes)
    given = given.to(numbers.device)
    if given.dtype == torch.bool:
        if given.dim() != 1 or len(given) <= int(numbers.max()):
            raise GraphError(
                f"the mask of nodes has shape {tuple(given.shape)}",
                "give an entry for every node: nodes=data.test_mask",
            )
        return given[numbers]
    return torch.isin(numbers, given.long())


def _classes(
    prediction: Predicted | None, mean: Tensor, truth: Tensor, rows: Tensor
) -> dict[str, float]:
    wrong = mean.argmax(1) != truth
    doubt = -(mean.amax(1) if prediction is None else prediction.trust[rows])
    found = {
        "accuracy": accuracy(mean, truth),
        "cross_entropy": cross_entropy(mean, truth),
        "brier": brier(mean, truth),
        "ece": ece(mean, truth),
    }
    if 0 < int(wrong.sum()) < len(wrong):
        found["auroc"] = auroc(doubt, wrong)
    return found | {"risk_coverage_area": risk_coverage(doubt, wrong).area}


def _labels(
    prediction: Predicted | None, mean: Tensor, truth: Tensor, rows: Tensor
) -> dict[str, float]:
    prob, real = mean.flatten().clamp(TINY, 1 - TINY), truth.flatten() > 0
    return {
        "accuracy": float(((prob > 1 / 2) == real).double().mean()),
        "cross_entropy": log_loss(prob, real),
        "brier": binary_brier(prob, real),
        "ece": binary_ece(prob, real),
    }


def _values(
    prediction: Predicted | None, mean: Tensor, truth: Tensor, rows: Tensor
) -> dict[str, float]:
    found = {"rmse": float((mean.double() - truth.double()).square().mean().sqrt())}
    if prediction is None:
        return found
    var = prediction.total[rows].clamp_min(0)
    low, high = prediction.interval(LEVEL)
    held = (low[rows] <= truth) & (truth <= high[rows])
    return found | {
        "gaussian_nll": gaussian_nll(mean, var, truth),
        "ence": variance_calibration(mean, var, truth).ence,
        "held": float(held.double().mean()),
    }
