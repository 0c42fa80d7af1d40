"""One look at the numbers before anything is measured: what cannot be right is refused.

Every check returns what it was given as tensors.
"""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
import torch
from numpy.typing import ArrayLike
from torch import Tensor

from varigraph.errors import GraphError, OptionError
from varigraph.options import whole

#: What can be measured: tensors, arrays of numpy, lists of numbers.
Numbers: TypeAlias = "Tensor | ArrayLike"
UNSIGNED = (torch.uint16, torch.uint32, torch.uint64)  # torch can hardly compute with them
#: How far the probabilities of a node may add up to something else than 1 by rounding.
ROUNDING = 1e-3


def tensors(**given: Numbers) -> list[Tensor]:
    """Dense tensors of the same numbers, on the device of the first that is a tensor already.

    Args:
        given: the numbers, by their names.

    Raises:
        GraphError: naming the first that makes no such tensor.
    """
    device = next((each.device for each in given.values() if isinstance(each, Tensor)), None)
    return [_tensor(name, value, device) for name, value in given.items()]


def _tensor(name: str, value: Numbers, device: torch.device | None) -> Tensor:
    try:
        # A copy: torch takes no arrays that cannot be written to, or that run backwards.
        found = value if isinstance(value, Tensor) else torch.tensor(np.array(value), device=device)
    except (TypeError, ValueError) as error:
        raise GraphError(
            f"{name} is a {type(value).__name__} that makes no tensor",
            "give a tensor, an array or a list of numbers",
        ) from error
    if found.is_meta or found.layout != torch.strided:
        raise GraphError(f"{name} is {found.layout} on {found.device}", "give it with its numbers")
    return found.long() if found.dtype in UNSIGNED else found.detach()


def check_classes(
    mean: Numbers,  # [nodes, classes]
    labels: Numbers,  # [nodes]
) -> tuple[Tensor, Tensor]:
    """Raises unless there are class probabilities and a class for at least one node."""
    mean, labels = tensors(mean=mean, labels=labels)
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
    return mean, labels


def check_truth(
    scores: Numbers,  # [pairs]
    real: Numbers,  # [pairs] bool
) -> tuple[Tensor, Tensor]:
    """Raises unless there is a truth value for each of at least one score."""
    scores, real = tensors(scores=scores, real=real)
    fits = scores.dim() == 1 and scores.shape == real.shape and len(real) > 0
    if not fits or real.dtype != torch.bool or scores.is_complex():
        raise GraphError(
            f"scores are {scores.dtype} of shape {tuple(scores.shape)}, real is {real.dtype} of "
            f"shape {tuple(real.shape)}",
            "give one score and one truth value for each pair: [pairs] and [pairs] bool",
        )
    if bool(scores.isnan().any()):
        raise GraphError("some scores are NaN", "leave out what has no score")
    return scores, real


def check_both_kinds(real: Tensor) -> None:  # [pairs] bool
    """Raises unless some truth values are true and some are false."""
    if not 0 < int(real.sum()) < len(real):
        raise GraphError(
            f"{int(real.sum())} of {len(real)} truth values are true",
            "give at least one that is true and one that is false",
        )


def check_probabilities(
    prob: Numbers,  # [pairs]
    real: Numbers,  # [pairs] bool
) -> tuple[Tensor, Tensor]:
    """Raises unless there is a truth value for each of at least one probability."""
    prob, real = check_truth(prob, real)
    if not bool(((prob >= 0) & (prob <= 1)).all()):
        raise OptionError("some values are outside 0 to 1", "give probabilities: logits.sigmoid()")
    return prob, real


def check_moments(
    mean: Numbers, var: Numbers, truth: Numbers, *, variances: str = "var"
) -> tuple[Tensor, Tensor, Tensor]:
    """Raises unless there is a mean, a variance and a true value for each of at least one number.

    A variance of 0 is right; one that is negative, NaN or infinite is not.

    Args:
        mean: expected values, of any shape.
        var: their variances, of the same shape.
        truth: the true values, of the same shape.
        variances: what the caller calls ``var``.
    """
    mean, var, truth = tensors(mean=mean, **{variances: var}, truth=truth)
    if not mean.shape == var.shape == truth.shape or mean.numel() == 0:
        raise GraphError(
            f"mean has shape {tuple(mean.shape)}, {variances} has {tuple(var.shape)}, "
            f"truth has {tuple(truth.shape)}",
            "give one mean, one variance and one true value for each number, at least one",
        )
    if mean.is_complex() or var.is_complex() or truth.is_complex():
        raise GraphError("some of the numbers are complex", "give real numbers")
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
    return mean, var, truth


def check_bins(bins: int) -> int:
    """Raises unless there is at least one interval."""
    return whole("bins", bins, least=1, most=10**6, remedy="take at least one interval: bins=15")
