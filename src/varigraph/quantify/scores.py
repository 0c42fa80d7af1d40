"""How good a prediction is, and how honest its variance: pure functions of tensors."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from varigraph.errors import GraphError, OptionError


def accuracy(mean: Tensor, labels: Tensor) -> float:  # [nodes, classes], [nodes]
    r"""Share of nodes whose most probable class is the true one.

    .. math:: \frac{1}{n} \sum_i \left[\arg\max_c \bar y_{ic} = y_i\right]

    Args:
        mean: expected class probabilities.
        labels: true classes, integers from 0.

    Example:
        >>> accuracy(torch.tensor([[0.9, 0.1], [0.6, 0.4]]), torch.tensor([0, 1]))
        0.5
    """
    _check(mean, labels)
    return float((mean.argmax(dim=1) == labels).double().mean())


def cross_entropy(mean: Tensor, labels: Tensor) -> float:  # [nodes, classes], [nodes]
    r"""Prediction loss: how surprised the expected probabilities are by the labels, in nats.

    .. math:: -\frac{1}{n} \sum_i \log \bar y_{i, y_i}

    A probability of 0 counts as the smallest normal number of its type (1.2e-38 in float32), so
    that one impossible node does not make the whole loss infinite.

    Args:
        mean: expected class probabilities (not logits).
        labels: true classes, integers from 0.

    Example:
        >>> round(cross_entropy(torch.tensor([[0.9, 0.1], [0.6, 0.4]]), torch.tensor([0, 1])), 4)
        0.5108
    """
    _check(mean, labels)
    of_truth = mean.gather(1, labels[:, None]).clamp_min(torch.finfo(mean.dtype).tiny)
    return -float(of_truth.double().log().mean())


def per_class_nll(mean: Tensor, total: Tensor, labels: Tensor, *, floor: float = 1e-6) -> float:
    r"""Gaussian negative log likelihood of the 0/1 labels, averaged over nodes and classes.

    .. math::
        \frac{1}{nC} \sum_{i,c} \frac12 \log v_{ic} + \frac{(y_{ic} - \bar y_{ic})^2}{2 v_{ic}}

    Equation 14 of the paper: the constant :math:`\frac12 \log 2\pi` is left out. A variance
    counts as at least ``floor``, as in :func:`torch.nn.functional.gaussian_nll_loss`, so that the
    value is finite for zero variance too. It is still enormous where a node with such a variance
    is wrong: the mean is then decided by the floor.

    Args:
        mean: expected class probabilities, ``[nodes, classes]``.
        total: their variances, ``[nodes, classes]``.
        labels: true classes, integers from 0, ``[nodes]``.
        floor: smallest variance that counts; 1e-6 is a standard deviation of a thousandth.

    Example:
        >>> mean, total = torch.tensor([[0.75, 0.25]]), torch.tensor([[0.25, 0.25]])
        >>> round(per_class_nll(mean, total, torch.tensor([0])), 4)
        -0.5681
    """
    _check(mean, labels)
    if total.shape != mean.shape:
        raise GraphError(
            f"mean has shape {tuple(mean.shape)}, total has {tuple(total.shape)}",
            "give one variance for every probability: pred.mean and pred.total",
        )
    if not bool((total >= 0).all()):
        raise GraphError(
            "total holds negative or undefined variances", "pass variances: pred.total"
        )
    if not floor > 0:
        raise OptionError(f"floor is {floor}", "choose a positive variance: floor=1e-6")
    var = total.double().clamp_min(floor)
    truth = F.one_hot(labels, mean.size(1)).double()
    return float((0.5 * var.log() + (truth - mean.double()) ** 2 / (2 * var)).mean())


def _check(mean: Tensor, labels: Tensor) -> None:
    if mean.dim() != 2 or labels.shape != mean.shape[:1] or mean.numel() == 0:
        raise GraphError(
            f"mean has shape {tuple(mean.shape)}, labels have {tuple(labels.shape)}",
            "pass at least one node: mean as [nodes, classes] and labels as [nodes]",
        )
    if labels.is_floating_point() or labels.min() < 0 or labels.max() >= mean.size(1):
        raise GraphError(
            f"labels are not all integers from 0 to {mean.size(1) - 1}",
            "number the classes from 0 and leave unlabelled nodes out: mean[known], labels[known]",
        )
    # Means of probabilities sum up with rounding, so a little beyond 1 is still a probability.
    if not mean.is_floating_point() or not bool(((mean >= -1e-6) & (mean <= 1 + 1e-6)).all()):
        raise OptionError(
            "mean holds values outside 0 to 1", "pass probabilities: logits.softmax(dim=-1)"
        )
