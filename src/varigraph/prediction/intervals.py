"""Intervals and sets of classes: from the noise alone, or such that they hold the truth."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, NamedTuple, get_args, overload

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.special import betaincinv, ndtri
from torch import Tensor

from varigraph.errors import OptionError
from varigraph.options import number, one_of
from varigraph.trust.conformal import SCORES, diffused, fewest, quantile

if TYPE_CHECKING:
    from varigraph.prediction.calibrator import Calibrator
    from varigraph.prediction.prediction import Prediction

Score = Literal["threshold", "adaptive"]
#: What the scores of values are kept as, and what is added to those of classes for neighbours.
VALUES, NEIGHBOURS = "values", ", neighbours"
#: Of the sets by which it is decided whether neighbours are asked: one alone is left to chance.
TYPICAL_LEVELS = (0.7, 0.75, 0.8, 0.85, 0.9, 0.95)
#: Variances and error bars below which all are alike.
TINY = 1e-12
CALIBRATE = "pred = vg.calibrate(pred, data.y, nodes=data.val_mask).apply(pred)"
Floats = NDArray[np.float64]


class Interval(NamedTuple):
    """Where each number of an answer lies: ``low, high = pred.interval(0.9)``.

    ``low`` and ``high`` are the ends, ``[rows, outputs]`` each.
    """

    low: Tensor
    high: Tensor

    @property
    def width(self) -> Tensor:  # [rows, outputs]
        """How far the ends are apart."""
        return self.high - self.low


@dataclass(frozen=True, eq=False, repr=False)
class ClassSets(Sequence[tuple[str, ...]]):
    """The classes that each node may have; ``sets[row]`` names them, the likeliest first.

    Args:
        members: whether a class is in the set of a row, ``[rows, classes]`` bool; no and yes in a
            binary task.
        ordered: the classes of each row, the likeliest first, ``[rows, classes]``.
        names: what the classes are called.
        level: share of the sets that are to hold the truth.
    """

    members: Tensor
    ordered: Tensor
    names: Sequence[str]
    level: float

    @property
    def sizes(self) -> Tensor:  # [rows]
        """How many classes each set has."""
        return self.members.sum(1)

    def holds(self, y: Tensor) -> Tensor:  # [rows] -> [rows] bool
        """Whether each set holds the class that is given.

        Args:
            y: a class for each row.
        """
        return self.members.gather(1, y.to(self.members.device).long().view(-1, 1)).squeeze(1)

    @overload
    def __getitem__(self, row: int) -> tuple[str, ...]: ...
    @overload
    def __getitem__(self, row: slice) -> Sequence[tuple[str, ...]]: ...
    def __getitem__(self, row: int | slice) -> tuple[str, ...] | Sequence[tuple[str, ...]]:
        if isinstance(row, slice):
            return [self[each] for each in range(*row.indices(len(self)))]
        return tuple(self.names[c] for c in self.ordered[row].tolist() if self.members[row, c])

    def __len__(self) -> int:
        return len(self.members)

    def __iter__(self) -> Iterator[tuple[str, ...]]:
        return (self[row] for row in range(len(self)))

    def __repr__(self) -> str:
        sizes, counts = self.sizes.unique(return_counts=True)
        shares = ", ".join(
            f"{size} in {count / len(self):.0%}"
            for size, count in zip(sizes.tolist(), counts.tolist(), strict=True)
        )
        mean = float(self.sizes.double().mean())
        return f"ClassSets({len(self):,} at {self.level:.0%}, {mean:.2f} classes: {shares})"


@dataclass(frozen=True, eq=False)
class HeldOut:
    """What intervals and sets are made of that hold the truth.

    Held-out nodes are divided by chance: one half shapes the scores, the other is scored. A new
    node and the scored ones then are alike, which they would not be had the latter been fitted.

    Args:
        half: the calibrator that the first half gives.
        scores: of the other half, sorted, by what they are scores of, ``[nodes]``, of values
            ``[nodes, outputs]``.
        neighbours: whether neighbours made sets smaller in the first half.
    """

    half: Calibrator
    scores: Mapping[str, Tensor]
    neighbours: bool = False

    def threshold(self, name: str, level: float) -> Tensor:  # [] or [outputs]
        """The score that a new one stays below with a chance of ``level``.

        Raises:
            OptionError: there are too few scores for that.
        """
        scores = self.scores[name]
        if len(scores) < fewest(level):
            raise OptionError(
                f"{level:.4g} of new nodes cannot be told from {len(scores)} held-out ones",
                f"calibrate with {2 * fewest(level)} nodes or more, of which half are scored",
            )
        return quantile(scores, level)


def interval(prediction: Prediction, level: float) -> Interval:
    """See :meth:`varigraph.Prediction.interval`."""
    level = _share(level)
    mean, calibrator = prediction.mean, prediction.calibrator
    if prediction.task != "regression":
        return _of_probabilities(mean, prediction.total, level)
    if calibrator is None or calibrator.held_out is None or prediction.by_half is None:
        reach = float(ndtri((1 + level) / 2)) * prediction.std
    else:
        held_out = calibrator.held_out
        reach = (held_out.threshold(VALUES, level).to(mean.device) * prediction.by_half).to(mean)
    return Interval(mean - reach, mean + reach)


def can_hold_truth(prediction: Prediction) -> bool:
    """Whether intervals of its values or sets of its classes were learned from held-out nodes."""
    known = prediction.calibrator is not None and prediction.by_half is not None
    return known and prediction.task != "multilabel"


def _of_probabilities(mean: Tensor, var: Tensor, level: float) -> Interval:
    """By the beta distribution of this mean and variance, which never leaves 0 to 1."""
    m, v = (each.detach().double().cpu().numpy() for each in (mean, var))
    m = np.clip(m, 0, 1)
    # A variance of m (1 - m) is that of a coin; a beta distribution has less.
    size = np.maximum(m * (1 - m) / np.maximum(v, TINY) - 1, TINY)
    certain = (v <= TINY) | (m <= TINY) | (m >= 1 - TINY)
    a, b = np.where(certain, 1, m * size), np.where(certain, 1, (1 - m) * size)
    ends = (np.where(certain, m, betaincinv(a, b, tail)) for tail in _tails(level))
    return Interval(*(torch.from_numpy(end).to(mean) for end in ends))


def _tails(level: float) -> tuple[float, float]:
    return (1 - level) / 2, (1 + level) / 2


def class_sets(
    prediction: Prediction, level: float, score: Score, neighbours: bool | None
) -> ClassSets:
    """See :meth:`varigraph.Prediction.class_sets`."""
    level, score = _share(level), one_of("score", score, get_args(Score))
    calibrator = prediction.calibrator
    if prediction.task not in ("classification", "binary"):
        remedy = "pred.interval(0.9)" if prediction.task == "regression" else "pred.mean > 0.5"
        raise OptionError(f"task={prediction.task!r} has no one true class", remedy)
    if calibrator is None or calibrator.held_out is None or prediction.by_half is None:
        raise OptionError("sets need nodes whose truth is known, held out of training", CALIBRATE)
    held_out = calibrator.held_out
    asks = held_out.neighbours if neighbours is None else neighbours
    name = score_name(score, asks)
    if asks and (name not in held_out.scores or not knows_neighbours(prediction)):
        raise OptionError(
            "neighbours are not known: the prediction is not about every node of a graph",
            "neighbours=False, or predict and calibrate without nodes=",
        )
    strange = strangeness(prediction, prediction.by_half, score, neighbours=asks)
    threshold = held_out.threshold(name, level).to(strange)
    prob = class_probabilities(prediction.mean, prediction.task)
    order = prob.argsort(dim=1, descending=True, stable=True)
    return ClassSets(strange <= threshold, order, _names(prediction), level)


def score_name(score: str, neighbours: bool) -> str:
    """What scores are kept as."""
    return f"{score}{NEIGHBOURS}" if neighbours else score


def knows_neighbours(prediction: Prediction) -> bool:
    """Whether rows are all nodes of a graph, whose links are known."""
    return prediction.rows.edge_index is not None and prediction.rows.nodes is None


def strangeness(
    prediction: Prediction, mean: Tensor, score: str, *, neighbours: bool
) -> Tensor:  # [rows, classes], double
    """How strange each class would be as the truth.

    Args:
        prediction: whose rows these are.
        mean: probabilities of its rows.
        score: one of :data:`Score`.
        neighbours: whether scores are smoothed over links.
    """
    found = SCORES[score](class_probabilities(mean, prediction.task).double())
    edge_index = prediction.rows.edge_index
    return diffused(found, edge_index) if neighbours and edge_index is not None else found


def class_probabilities(mean: Tensor, task: str) -> Tensor:  # [rows, outputs] -> [rows, classes]
    """Of no and yes in a binary task."""
    return torch.cat([1 - mean, mean], 1) if task == "binary" else mean


def scores_of(
    prediction: Prediction, halfway: Prediction, rows: Tensor, truth: Tensor
) -> dict[str, Tensor]:
    """Sorted scores of the truth, by name.

    Args:
        prediction: as it was given.
        halfway: the same, calibrated by the first half.
        rows: the other half.
        truth: their classes or values.
    """
    if prediction.task == "regression":
        off = (truth - prediction.mean[rows].double()).abs()
        return {VALUES: (off / error_bars(halfway)[rows]).sort(0).values}
    if prediction.task == "multilabel":
        return {}
    found = {}
    for score in SCORES:
        for neighbours in (False, True)[: 1 + knows_neighbours(prediction)]:
            strange = strangeness(prediction, halfway.mean, score, neighbours=neighbours)
            of_truth = strange[rows].gather(1, truth.view(-1, 1)).squeeze(1)
            found[score_name(score, neighbours)] = of_truth.sort().values
    return found


def error_bars(halfway: Prediction) -> Tensor:  # [rows, outputs], double
    """Never 0, so that errors can be divided by them."""
    return halfway.total.double().clamp_min(0).sqrt().clamp_min(TINY)


def smaller_with_neighbours(
    prediction: Prediction, halfway: Prediction, rows: Tensor, truth: Tensor
) -> bool:
    """Whether sets of the nodes that shaped the scores get smaller if neighbours are asked.

    Args:
        prediction: as it was given.
        halfway: the same, calibrated by these rows.
        rows: the first half of the held-out nodes.
        truth: their classes.
    """
    if prediction.task != "classification" or not knows_neighbours(prediction):
        return False
    sizes = []
    for neighbours in (False, True):
        strange = strangeness(prediction, halfway.mean, "threshold", neighbours=neighbours)
        of_truth = strange[rows].gather(1, truth.view(-1, 1)).squeeze(1)
        reach = torch.stack([quantile(of_truth, level) for level in TYPICAL_LEVELS])
        sizes.append(sum(float((strange <= each).double().mean()) for each in reach))
    return sizes[1] < sizes[0]


def _names(prediction: Prediction) -> list[str]:
    if prediction.task == "binary":
        return list(map(str, prediction.rows.outputs or ("no", "yes")))
    classes = range(prediction.mean.shape[1])
    return [prediction.rows.output(output, prediction.task) for output in classes]


def _share(level: float) -> float:
    remedy = "a share between 0 and 1: level=0.9"
    return number("level", level, lambda share: 0 < share < 1, remedy=remedy)
