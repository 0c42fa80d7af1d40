"""One look at the tensors before anything is measured: what cannot be right is refused."""

from __future__ import annotations

import torch
from torch import Tensor

from varigraph.errors import GraphError, OptionError

#: How far the probabilities of a node may add up to something else than 1 by rounding.
ROUNDING = 1e-3


def check_classes(mean: Tensor, labels: Tensor) -> None:  # [nodes, classes], [nodes]
    """Raises unless there are class probabilities and a class for at least one node."""
    if mean.dim() != 2 or labels.shape != mean.shape[:1] or mean.numel() == 0:
        raise GraphError(
            f"mean has shape {tuple(mean.shape)}, labels have {tuple(labels.shape)}",
            "pass at least one node: mean as [nodes, classes] and labels as [nodes]",
        )
    whole = not (labels.is_floating_point() or labels.is_complex() or labels.dtype == torch.bool)
    if not whole or labels.min() < 0 or labels.max() >= mean.size(1):
        raise GraphError(
            f"labels are not all integers from 0 to {mean.size(1) - 1}",
            "number the classes from 0 and leave unlabelled nodes out: mean[known], labels[known]",
        )
    # Means of probabilities sum up with rounding, so a little beyond 1 is still a probability.
    if not mean.is_floating_point() or not bool(((mean >= -1e-6) & (mean <= 1 + 1e-6)).all()):
        raise OptionError(
            "mean holds values outside 0 to 1", "pass probabilities: logits.softmax(dim=-1)"
        )
    far = (mean.double().sum(dim=1) - 1).abs() - torch.finfo(mean.dtype).eps * mean.size(1)
    if bool((far > ROUNDING).any()):
        node = int(far.argmax())
        raise OptionError(
            f"mean[{node}] adds up to {mean[node].double().sum():.4g}, not to 1",
            "pass the probabilities of all classes: logits.softmax(dim=-1)",
        )


def check_truth(scores: Tensor, real: Tensor) -> None:  # [pairs], [pairs] bool
    """Raises unless there is a truth value for each of at least one score."""
    fits = scores.dim() == 1 and scores.shape == real.shape and len(real) > 0
    if not fits or real.dtype != torch.bool or scores.is_complex():
        raise GraphError(
            f"scores are {scores.dtype} of shape {tuple(scores.shape)}, real is {real.dtype} of "
            f"shape {tuple(real.shape)}",
            "give one score and one truth value for each pair: [pairs] and [pairs] bool",
        )
    if bool(scores.isnan().any()):
        raise GraphError("some scores are NaN", "leave out what has no score")


def check_both_kinds(real: Tensor) -> None:  # [pairs] bool
    """Raises unless some truth values are true and some are false."""
    if not 0 < int(real.sum()) < len(real):
        raise GraphError(
            f"{int(real.sum())} of {len(real)} truth values are true",
            "give at least one that is true and one that is false",
        )


def check_probabilities(prob: Tensor, real: Tensor) -> None:  # [pairs], [pairs] bool
    """Raises unless there is a truth value for each of at least one probability."""
    check_truth(prob, real)
    if not bool(((prob >= 0) & (prob <= 1)).all()):
        raise OptionError("some values are outside 0 to 1", "give probabilities: logits.sigmoid()")


def check_moments(mean: Tensor, var: Tensor, truth: Tensor, *, variances: str = "var") -> None:
    """Raises unless there is a mean, a variance and a true value for each of at least one number.

    A variance of 0 is right; one that is negative, NaN or infinite is not.

    Args:
        mean: expected values, of any shape.
        var: their variances, of the same shape.
        truth: the true values, of the same shape.
        variances: what the caller calls ``var``.
    """
    if not mean.shape == var.shape == truth.shape or mean.numel() == 0:
        raise GraphError(
            f"mean has shape {tuple(mean.shape)}, {variances} has {tuple(var.shape)}, "
            f"truth has {tuple(truth.shape)}",
            "give one mean, one variance and one true value for each number, at least one",
        )
    if not bool((var.isfinite() & (var >= 0)).all()):
        raise GraphError(
            f"{variances} holds values that are negative or not finite",
            "pass variances: pred.total",
        )
    for name, values in (("mean", mean), ("truth", truth)):
        if not bool(values.isfinite().all()):
            raise GraphError(
                f"{name} holds values that are not finite", "leave out what is not known"
            )


def check_bins(bins: int) -> None:
    """Raises unless there is at least one interval."""
    if bins < 1:
        raise OptionError(f"bins is {bins}", "take at least one interval: bins=15")
