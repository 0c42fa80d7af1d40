"""What the numbers of an answer mean: classes, labels or values; and whether they can mean that."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from varigraph.choices import Task
from varigraph.errors import ModelError, OptionError
from varigraph.moments import Gaussian, StandIn

#: Tasks with a sigmoid for every logit.
SIGMOIDS: tuple[Task, ...] = ("binary", "multilabel")
#: Fewer numbers may all happen to lie between 0 and 1.
ENOUGH_TO_TELL = 32
CALL = "forward=lambda model, x, data: model(x, data.edge_index)"


def probabilities(logits: Tensor, task: Task) -> Tensor:  # [..., outputs] -> [..., outputs]
    """What certain logits say: their softmax, the sigmoid of each, or in regression themselves."""
    if task == "regression":
        return logits
    return logits.sigmoid() if task in SIGMOIDS else logits.softmax(-1)


def looks_through_softmax(task: Task) -> bool:
    """Whether what stood before a last softmax is the answer.

    Raises:
        ModelError: the task has no softmax.
    """
    if task != "classification":
        raise ModelError("the model ends in a softmax", 'that is task="classification"')
    return True


def looks_through_sigmoid(task: Task) -> bool:
    """Whether what stood before a last sigmoid is the answer; in regression its result is.

    Raises:
        ModelError: the task is about one class of several.
    """
    if task == "classification":
        raise ModelError(
            "the model ends in a sigmoid, which gives every output a probability of its own",
            'that is task="multilabel", or task="binary" for a single output',
        )
    return task != "regression"


def check_output(out: Gaussian, task: Task, *, logits: bool = False) -> None:
    """Raises if a model's answer is not one of the task's kind.

    Args:
        out: what the model returned, or what stood before its last step.
        task: what is asked for.
        logits: whether a last softmax or sigmoid was seen, so that these are surely logits.
    """
    mean = out.mean
    if not mean.is_floating_point() or mean.layout != torch.strided or mean.is_meta:
        raise ModelError(
            f"the answer is {mean.dtype}, {mean.layout} on {mean.device}, not real numbers",
            "return dense floats, such as logits",
        )
    check_rows(mean.shape)
    finite = mean.isfinite() & out.var.isfinite()
    if not bool(finite.all()):
        row = int((~finite).any(1).nonzero()[0])
        raise ModelError(
            f"the answer for node {row} is not a finite number",
            "check the weights for NaN or infinity, and that the model keeps what in-place "
            "functions such as scatter_add_() return",
        )
    _check_width(mean, task)
    if not logits:
        _check_logits(mean, task)


def _check_width(mean: Tensor, task: Task) -> None:  # [nodes, outputs]
    if task == "classification" and mean.shape[1] < 2:
        raise ModelError(
            f"the answer has shape {tuple(mean.shape)}, not one value per class for each node",
            'for values say task="regression", for one logit of yes or no task="binary"',
        )
    if task == "binary" and mean.shape[1] > 1:
        raise ModelError(
            f"the answer has shape {tuple(mean.shape)}, not one logit for each node",
            'labels that can be true together are task="multilabel", one class of several is '
            'task="classification"',
        )


def check_rows(shape: torch.Size) -> None:
    """Raises if an answer of this shape has not one row per node."""
    if len(shape) != 2 or shape.numel() == 0:
        raise ModelError(
            f"the answer has shape {tuple(shape)}, not one row per node",
            "return [nodes, outputs]; more dimensions by out.flatten(1)",
        )


def _check_logits(mean: Tensor, task: Task) -> None:  # [nodes, outputs]
    """Raises where the numbers are probabilities already, as far as numbers can tell."""
    if task == "regression":
        return
    if task == "classification" and _adds_up(mean):
        raise ModelError(
            "the answer looks like class probabilities, but a softmax was not the last step",
            "return the logits (or their softmax) from the model",
        )
    if mean.numel() < ENOUGH_TO_TELL or not bool(((mean > 0) & (mean <= 1)).all()):
        return
    what = "the answer lies between 0 and 1 everywhere, as probabilities do and logits do not"
    if task == "classification":
        raise ModelError(
            f"{what}, and does not add up to 1",
            'for a probability of each label, task="multilabel"; if these are logits, say so by a '
            f"softmax: {CALL}.softmax(-1)",
        )
    raise ModelError(
        f"{what}, but a sigmoid was not the last step",
        f"for probabilities, {CALL}.logit(); if these are logits, say so by a sigmoid: "
        f"{CALL}.sigmoid()",
    )


def _adds_up(mean: Tensor) -> bool:  # [nodes, classes]
    sums = mean.sum(-1)
    positive = bool((mean >= 0).all())
    return positive and torch.allclose(sums, torch.ones_like(sums), atol=1e-4)


def picked(out: Any, output: int | str | None) -> Any:
    """The answer among what a network returned.

    Args:
        out: a tensor, or several in a tuple, a list or a dict.
        output: place or key of the answer; None where there is only one tensor.

    Raises:
        ModelError: there are several, which are named.
        OptionError: there is no such output.
    """
    if isinstance(out, (Tensor, StandIn)) or not isinstance(out, (Mapping, tuple, list)):
        if output is not None and output != 0:
            raise OptionError(f"output={output!r}, but the model returns one", "leave output= out")
        return out
    several = dict(out) if isinstance(out, Mapping) else dict(enumerate(out))
    if output is not None:
        if output not in several:
            raise OptionError(f"the model has no output {output!r}", f"one of {list(several)}")
        return several[output]
    tensors = {key: each for key, each in several.items() if isinstance(each, (Tensor, StandIn))}
    if len(tensors) == 1:
        return next(iter(tensors.values()))
    shapes = ", ".join(f"{key!r} {tuple(each.shape)}" for key, each in tensors.items())
    first = next(iter(tensors), 0)
    raise ModelError(
        f"the model returns a {type(out).__name__} with {len(tensors)} tensors: {shapes}",
        f"say which is the answer: output={first!r}",
    )
