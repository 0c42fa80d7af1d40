"""How right probabilities are: of classes, and that something is true."""

from __future__ import annotations

import torch
import torch.nn.functional as F

from varigraph.metrics.inputs import Numbers, check_classes, check_probabilities


def accuracy(mean: Numbers, labels: Numbers) -> float:  # [nodes, classes], [nodes]
    r"""Share of nodes whose most probable class is the true one.

    .. math:: \frac{1}{n} \sum_i \left[\arg\max_c \bar y_{ic} = y_i\right]

    Args:
        mean: expected class probabilities.
        labels: true classes, integers from 0.

    Example:
        >>> accuracy(torch.tensor([[0.9, 0.1], [0.6, 0.4]]), torch.tensor([0, 1]))
        0.5
    """
    mean, labels = check_classes(mean, labels)
    return float((mean.argmax(dim=1) == labels).double().mean())


def cross_entropy(mean: Numbers, labels: Numbers) -> float:  # [nodes, classes], [nodes]
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
    mean, labels = check_classes(mean, labels)
    of_truth = mean.gather(1, labels.long()[:, None]).clamp_min(torch.finfo(mean.dtype).tiny)
    return -float(of_truth.double().log().mean())


def brier(mean: Numbers, labels: Numbers) -> float:  # [nodes, classes], [nodes]
    r"""Squared distance from the truth: summed over classes, averaged over nodes; 0 to 2.

    .. math:: \frac{1}{n} \sum_i \sum_c \left(\bar y_{ic} - [y_i = c]\right)^2

    With two classes it is twice :func:`~varigraph.metrics.binary_brier` of one of them.

    Args:
        mean: expected class probabilities.
        labels: true classes, integers from 0.

    Example:
        >>> round(brier(torch.tensor([[0.9, 0.1], [0.6, 0.4]]), torch.tensor([0, 1])), 4)
        0.37
    """
    mean, labels = check_classes(mean, labels)
    truth = F.one_hot(labels.long(), mean.size(1)).double()
    return float((mean.double() - truth).square().sum(dim=1).mean())


def log_loss(prob: Numbers, real: Numbers) -> float:  # [pairs], [pairs] bool
    r"""How surprised the probabilities are by the truth, in nats.

    .. math:: -\frac1n \sum_i y_i \log p_i + (1 - y_i) \log(1 - p_i)

    Infinite where something was held to be certain and is not.

    Args:
        prob: predicted probabilities.
        real: what is true.

    Example:
        >>> round(log_loss(torch.tensor([0.5, 0.5]), torch.tensor([True, False])), 4)
        0.6931
    """
    prob, real = check_probabilities(prob, real)
    of_truth = torch.where(real, prob.double(), 1 - prob.double())
    return -float(of_truth.log().mean())


def binary_brier(prob: Numbers, real: Numbers) -> float:  # [pairs], [pairs] bool
    r"""Mean squared distance of the probabilities from 1 (true) and 0 (false); 0 to 1.

    .. math:: \frac1n \sum_i (p_i - y_i)^2

    Args:
        prob: predicted probabilities.
        real: what is true.

    Example:
        >>> binary_brier(torch.tensor([0.5, 1.0]), torch.tensor([True, True]))
        0.125
    """
    prob, real = check_probabilities(prob, real)
    return float((prob.double() - real.double()).square().mean())
