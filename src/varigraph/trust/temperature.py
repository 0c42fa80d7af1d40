"""Temperatures: one for all answers, or the one at which an answer has a given confidence."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.optimize import minimize
from scipy.special import logsumexp, softmax
from torch import Tensor

#: Inverse temperatures that all nodes may share, and that a node may have: hardly any tie is so
#: close that it could not be broken.
LEAST, MOST, MOST_BY_NODE = 1e-2, 1e2, 1e6
#: Halvings of the logarithm of that range, down to rounding.
HALVINGS = 60
Floats = NDArray[np.float64]


def fitted_scale(log_prob: Tensor, labels: Tensor) -> float:  # [nodes, classes], [nodes]
    r"""The inverse temperature of least log loss, which is convex in it.

    .. math:: \min_s -\frac1n \sum_i \log \operatorname{softmax}(s \log p_i)_{y_i}

    Args:
        log_prob: logarithms of probabilities, double.
        labels: true classes.
    """
    z: Floats = log_prob.cpu().numpy()
    of_truth = np.take_along_axis(z, labels.cpu().numpy()[:, None], 1)[:, 0]

    def loss(scale: Floats) -> tuple[float, Floats]:
        moved = scale[0] * z
        slope = (softmax(moved, axis=1) * z).sum(1) - of_truth
        value = logsumexp(moved, axis=1) - scale[0] * of_truth
        return float(value.mean()), np.array([slope.mean()])

    found = minimize(loss, [1.0], jac=True, method="L-BFGS-B", bounds=[(LEAST, MOST)])
    return float(found.x[0])


def scale_at(log_prob: Tensor, confidence: Tensor) -> Tensor:  # [nodes, classes], [nodes]
    r"""The inverse temperature of each node at which its likeliest class has a probability.

    .. math:: \max_c \operatorname{softmax}(s_i \log p_i)_c = q_i

    The left side rises with s, from one over the number of classes, so that halving finds it. What
    is beyond all temperatures gets the last one.

    Args:
        log_prob: logarithms of probabilities.
        confidence: q.

    Example:
        >>> log_prob = torch.tensor([[0.5, 0.3, 0.2]]).double().log()
        >>> scale = scale_at(log_prob, torch.tensor([0.8]).double())
        >>> round((scale[:, None] * log_prob).softmax(1).max().item(), 6)
        0.8
    """
    behind = log_prob - log_prob.amax(1, keepdim=True)
    low = torch.full_like(confidence, np.log(LEAST))
    high = torch.full_like(confidence, np.log(MOST_BY_NODE))
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        top = 1 / (middle.exp()[:, None] * behind).exp().sum(1)
        below = top < confidence
        low, high = torch.where(below, middle, low), torch.where(below, high, middle)
    return ((low + high) / 2).exp()
