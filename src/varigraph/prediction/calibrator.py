"""What was learned from held-out nodes, and what it makes of predictions."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import torch
from torch import Tensor

from varigraph.choices import Task
from varigraph.errors import OptionError
from varigraph.moments import Gaussian
from varigraph.prediction.intervals import HeldOut, error_bars
from varigraph.prediction.least_trusted import RESIDUAL
from varigraph.prediction.saved_calibrator import read_calibrator, write_calibrator
from varigraph.prediction.tasks import SIGMOIDS
from varigraph.trust.conformal import degrees, neighbours_mean
from varigraph.trust.fitted import Chance, scale_at

if TYPE_CHECKING:
    from varigraph.prediction.prediction import Prediction, StandardErrors

Kind = Literal["temperature", "graph", "residual"]
#: A probability below which all are alike.
TINY = 1e-12


@dataclass(frozen=True, eq=False, repr=False)
class Calibrator:
    """Makes answers come true as often as they say; see :func:`varigraph.calibrate`.

    Args:
        task: whose answers.
        outputs: how many classes, labels or values they have.
        kind: ``"temperature"``, ``"graph"`` or ``"residual"``.
        learned: the numbers that were found, by name.
        held_out: what intervals and sets that hold the truth are made of.
    """

    task: Task
    outputs: int
    kind: Kind
    learned: Mapping[str, Tensor]
    held_out: HeldOut | None = None

    def __repr__(self) -> str:
        if self.kind == "residual":
            pairs = ", ".join(
                f"{scale:.3g} x variance + {own:.3g}"
                for scale, own in self.learned["variance"].tolist()
            )
            return f"Calibrator({self.task}, {pairs})"
        temperature = 1 / float(self.learned["scale"])
        by_node = ", by node" if self.kind == "graph" else ""
        return f"Calibrator({self.task}, temperature {temperature:.3g}{by_node})"

    def apply(self, prediction: Prediction) -> Prediction:
        """The same prediction, calibrated: its mean and all variances, or in regression these.

        Args:
            prediction: of the same network, for the same graph or another one.

        Raises:
            OptionError: the prediction is of another kind, or calibrated already.
        """
        self._check(prediction)
        found = self._applied(prediction)
        if self.held_out is None:
            return found
        return replace(found, by_half=by_half(self.held_out.half.apply(prediction)))

    def _applied(self, prediction: Prediction) -> Prediction:
        if self.kind == "residual":
            return self._with_residual(prediction)
        chance = self._chance(prediction) if self.kind == "graph" else None
        scale = self._scale(prediction, chance)[:, None]  # [rows, 1]
        p = prediction.mean.double().clamp(TINY, 1 - TINY)
        labels = self.task in SIGMOIDS
        q = (scale * p.logit()).sigmoid() if labels else (scale * p.log()).softmax(1)
        stretch = scale * q * (1 - q) / (p * (1 - p))
        found = self._stretched(prediction, q, stretch, scale)
        return found if chance is None else replace(found, chance=chance.to(prediction.mean))

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write it as JSON; :meth:`load` gives the same numbers, bit by bit.

        Args:
            path: the file; an earlier one is replaced.

        Raises:
            FileError: it cannot be written.
        """
        return write_calibrator(self, path)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Calibrator:
        """Read what :meth:`save` wrote.

        Args:
            path: the file.

        Raises:
            FileError: it cannot be read, is damaged, or of another version.
        """
        return read_calibrator(path)

    def _stretched(
        self, prediction: Prediction, mean: Tensor, stretch: Tensor, scale: Tensor
    ) -> Prediction:
        r"""Variances by the slope of the new probability: :math:`V \, (dq / dp)^2`.

        As if the other classes kept their proportions, and never more than :math:`q (1 - q)`.
        """
        like, total = prediction.mean, prediction.total.double().clamp_min(0)
        room = mean * (1 - mean) / (total * stretch.square()).clamp_min(TINY)
        square = stretch.square() * room.clamp_max(1)
        logits = prediction.logits
        return replace(
            prediction,
            mean=mean.to(like),
            by_source={part: (square * var).to(like) for part, var in prediction.by_source.items()},
            logits=Gaussian(scale.to(like) * logits.mean, scale.to(like).square() * logits.var),
            std_error=_stretched_errors(prediction.std_error, stretch.to(like), square.to(like)),
            method=f"{prediction.method}; calibrated",
            calibrator=self,
        )

    def _with_residual(self, prediction: Prediction) -> Prediction:
        scale, own = self.learned["variance"].to(prediction.mean).unbind(1)  # [outputs] each
        parts = {part: scale * var for part, var in prediction.by_source.items()}
        parts[RESIDUAL] = own.expand_as(prediction.mean).clone()
        total = scale * prediction.total.clamp_min(0) + own
        return replace(
            prediction,
            by_source=parts,
            logits=Gaussian(prediction.mean, total),
            std_error=_stretched_errors(prediction.std_error, torch.ones_like(scale), scale),
            method=f"{prediction.method}; calibrated",
            calibrator=self,
        )

    def _chance(self, prediction: Prediction) -> Tensor:  # [rows]
        """How likely each answer is right."""
        names = ("centre", "width", "slopes", "shift")
        chance = Chance(*(self.learned[name] for name in names))
        return chance(graph_numbers(prediction, float(self.learned["scale"])))

    def _scale(self, prediction: Prediction, chance: Tensor | None) -> Tensor:  # [rows]
        """The inverse temperature of each row."""
        if chance is None:
            return self.learned["scale"].to(prediction.mean.device).expand(len(prediction.mean))
        return scale_at(log_probabilities(prediction.mean, self.task), chance)

    def _check(self, prediction: Prediction) -> None:
        if prediction.calibrator is not None:
            raise OptionError(
                "the prediction is calibrated already", "pred = vg.predict(model, data)"
            )
        if (prediction.task, prediction.mean.shape[1]) != (self.task, self.outputs):
            raise OptionError(
                f"the calibrator is for {self.outputs} outputs of task={self.task!r}, the "
                f"prediction has {prediction.mean.shape[1]} of task={prediction.task!r}",
                "calibrate with a prediction of the same network",
            )
        about = prediction.rows
        if self.kind == "graph" and (about.edge_index is None or about.nodes is not None):
            raise OptionError(
                "the calibrator asks neighbours, and the prediction is not about every node",
                'predict without nodes=, or calibrate with kind="temperature"',
            )


def by_half(halfway: Prediction) -> Tensor:  # [rows, outputs], double
    """What a prediction keeps of the calibrator of one half: probabilities, or error bars."""
    return error_bars(halfway) if halfway.task == "regression" else halfway.mean.double()


def log_probabilities(mean: Tensor, task: Task) -> Tensor:  # [rows, outputs], double
    """Of classes as they are; of labels, no and yes by turns, ``[rows, 2 x outputs]``."""
    p = mean.double().clamp(TINY, 1 - TINY)
    if task in SIGMOIDS:
        return torch.stack([(1 - p).log(), p.log()], 2).flatten(1)
    return p.log()


def graph_numbers(prediction: Prediction, scale: float) -> Tensor:  # [nodes, 5], double
    r"""What the chance of being right is learned from, for every node.

    The log odds of its confidence; the probability of its answer among its neighbours, and among
    theirs; the logarithms of its degree and of the share :math:`V / \bar y (1 - \bar y)` of its
    doubt that is variance.

    Args:
        prediction: for all nodes.
        scale: the inverse temperature that all nodes share.
    """
    edge_index = prediction.rows.edge_index
    assert edge_index is not None  # checked before
    q = (scale * log_probabilities(prediction.mean, prediction.task)).softmax(1)
    confidence, best = q.clamp(TINY, 1 - TINY).max(1, keepdim=True)
    near = neighbours_mean(q, edge_index)
    far = neighbours_mean(near, edge_index)
    p = prediction.mean.double().gather(1, best)
    var = prediction.total.double().clamp_min(0).gather(1, best)
    doubt = ((var + TINY) / (p * (1 - p)).clamp_min(TINY)).clamp_max(1)
    degree = degrees(edge_index, len(q))[:, None]
    numbers = confidence.logit(), near.gather(1, best), far.gather(1, best)
    return torch.cat([*numbers, degree.log1p(), doubt.log()], 1)


def _stretched_errors(
    errors: StandardErrors | None, stretch: Tensor, square: Tensor
) -> StandardErrors | None:
    if errors is None:
        return None
    by_source = {part: square * error for part, error in errors.by_source.items()}
    return replace(
        errors, mean=stretch * errors.mean, total=square * errors.total, by_source=by_source
    )
