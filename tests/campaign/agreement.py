"""When two answers are the same: what rounding, integration and few draws may do to them."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor

import varigraph as vg
from varigraph import Prediction

#: Brute force of some hundred draws, and approximations, may be off by so much.
FACTOR = 3


def figures(pred: Prediction) -> dict[str, Tensor]:
    """All numbers of an answer."""
    return {"mean": pred.mean, **variances(pred), "logits.mean": pred.logits.mean}


def variances(pred: Prediction) -> dict[str, Tensor]:
    """All variances of an answer."""
    return {"logits.var": pred.logits.var, **_shares(pred)}


def _shares(pred: Prediction) -> dict[str, Tensor]:
    return {"total": pred.total, **pred.by_source}


def is_sampled(pred: Prediction) -> bool:
    """Whether an answer was drawn as a whole."""
    return pred.method.startswith("sampled")


def digits(values: Tensor) -> float:
    """Relative rounding error that a deep sum may have."""
    return 1e3 * float(torch.finfo(values.dtype).eps)


def rounding(pred: Prediction) -> Tensor:  # -> [outputs]
    """Variance that rounding the answers of draws looks like.

    A draw is a sum whose terms may be as large as any output, and cancel.
    """
    means = pred.logits.mean.abs().amax(0)
    size = means.amax().expand_as(means) if is_sampled(pred) else means
    return (digits(pred.mean) * size).square() / 100 + tiny(pred)


def unseen(pred: Prediction) -> Tensor:  # -> [nodes, outputs]
    """Variance of an answer whose digits do not move: units that are saturated leave no more."""
    return (10 * torch.finfo(pred.mean.dtype).eps * pred.logits.mean).square()


def cancelling(pred: Prediction) -> Tensor:  # -> [nodes, outputs]
    """Rounding error of a sum of parts, which may be far larger than the sum.

    Where masks leave little of what features cause alone, interactions take back the rest.
    """
    size = torch.stack([part.abs() for part in pred.by_source.values()]).sum(0)
    return digits(pred.mean) * size


def steadiness(pred: Prediction) -> float:
    """Relative error of variances: rounding, as far as whitening blows it up.

    Logits that follow from each other are whitened with a ridge of ε^0.7.
    """
    return max(1e-3, float(torch.finfo(pred.mean.dtype).eps) ** 0.3)


def tiny(pred: Prediction) -> float:
    """Below this numbers lose their digits."""
    return 1e3 * float(torch.finfo(pred.mean.dtype).tiny)


def _integration(pred: Prediction) -> tuple[float, Tensor | float]:  # relative, [nodes, 1]
    """What an integral of a softmax may be off: its few points follow from all that is asked."""
    if pred.task == "regression" or is_sampled(pred):
        return steadiness(pred), 0.0
    return 2e-2, 2e-2 * (pred.logits.var.amax(-1, keepdim=True) / 100).clamp_max(1)


@dataclass(frozen=True)
class Shaken:
    """What a network makes of rounding.

    Args:
        answers: how far its answers move.
        logits: how far its logits move.
        drawn: whether draws move like this, and with them their variance.
    """

    answers: float = 0.0
    logits: float = 0.0
    drawn: bool = False

    def variance(self, var: Tensor, moved: float) -> Tensor:
        """How far a variance of draws moves: 2 σ δ + δ²."""
        return (2 * var.clamp_min(0).sqrt() * moved + moved**2) * self.drawn


def assert_same_answer(
    one: Prediction,
    two: Prediction,
    rows: Tensor | None = None,
    *,
    cancelled: float = 0.0,
    shaken: Shaken = Shaken(),  # noqa: B008
) -> None:
    """Two predictions agree, the second restricted to some rows.

    Args:
        one: a prediction.
        two: another.
        rows: those of the second that the first is about; default all.
        cancelled: what rounding may leave of variances that cancel.
        shaken: what the network makes of rounding.
    """
    if is_sampled(one) != is_sampled(two):  # auto judges by draws, for the nodes asked for
        drawn = one if is_sampled(one) else two
        assert "off here" in drawn.method, f"{one.method} for {two.method}"
        return
    assert one.method.split(":")[0] == two.method.split(":")[0], f"{one.method} for {two.method}"
    two = two if rows is None else _rows(two, rows.to(two.mean.device))
    relative, off = _integration(two)
    size = float(two.mean.abs().max()) + 1e-6
    floor = digits(two.mean) * size + off + shaken.answers
    assert_alike(one.mean, two.mean, "mean", 1e-3, floor)
    var, least = two.logits.var, rounding(two) + cancelled
    moved = least + shaken.variance(var, shaken.logits)
    assert_alike(one.logits.var, var, "logits.var", steadiness(two), moved)
    # A part is what is left of a whole, and the whole a sum of parts.
    floor = off + least + 1e-5 * two.total + cancelling(two)
    floor = floor + shaken.variance(two.total, shaken.answers)
    for name, values in _shares(two).items():
        assert_alike(_shares(one)[name], values, name, relative, floor)


def _rows(pred: Prediction, rows: Tensor) -> Prediction:
    parts = {name: part[rows] for name, part in pred.by_source.items()}
    logits = vg.Gaussian(pred.logits.mean[rows], pred.logits.var[rows])
    return replace(pred, mean=pred.mean[rows], by_source=parts, logits=logits)


def assert_alike(
    one: Tensor, two: Tensor, what: str, relative: float, floor: Tensor | float
) -> None:
    """Two tensors agree, number by number."""
    assert one.shape == two.shape, f"{what} has shape {tuple(one.shape)}, not {tuple(two.shape)}"
    off = (one - two).abs() > relative * two.abs() + floor
    assert not bool(off.any()), f"{what} is {one[off][:4].tolist()} for {two[off][:4].tolist()}"


def assert_within_factor(one: Tensor, true: Tensor, what: str) -> None:
    """One tensor is near another, number by number."""
    off = (one > FACTOR * true) | (one < true / FACTOR)
    assert not bool(off.any()), f"{what} is {one[off][:4].tolist()} for {true[off][:4].tolist()}"
