"""What is learned from answers whose truth is known: temperatures, a chance, a residual."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.optimize import minimize
from scipy.special import expit, logsumexp, softmax
from torch import Tensor

Floats = NDArray[np.float64]
#: Inverse temperatures that all nodes may share, and that a node may have: hardly any tie is so
#: close that it could not be broken.
LEAST, MOST, MOST_BY_NODE = 1e-2, 1e2, 1e6
#: Halvings of the logarithm of that range, down to rounding.
HALVINGS = 60
#: Penalties on everything but the first number, of which validation chooses.
PENALTIES = (1.0, 10.0, 100.0)
#: Parts that the nodes are divided into to choose among them.
PARTS = 5


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


@dataclass(frozen=True, eq=False)
class Chance:
    r"""Logistic regression.

    .. math:: q_i = \frac{1}{1 + e^{-(a + w' (f_i - c) / d)}}

    Args:
        centre: c, the mean of each number, ``[numbers]``.
        width: d, its standard deviation, ``[numbers]``.
        slopes: w, ``[numbers]``.
        shift: a, ``[]``.
    """

    centre: Tensor
    width: Tensor
    slopes: Tensor
    shift: Tensor

    def __call__(self, numbers: Tensor) -> Tensor:  # [nodes, numbers] -> [nodes]
        """The chance of each node, strictly between 0 and 1."""
        parts = (each.to(numbers) for each in (self.centre, self.width, self.slopes, self.shift))
        centre, width, slopes, shift = parts
        tiny = torch.finfo(torch.float32).eps
        return torch.sigmoid((numbers - centre) / width @ slopes + shift).clamp(tiny, 1 - tiny)


def fitted_chance(numbers: Tensor, right: Tensor) -> Chance:  # [nodes, numbers], [nodes] bool
    """The chance of least penalised log loss, the penalty by cross-validation.

    The first number, the network's own confidence, is hardly penalised; the others are, by as much
    as predicts best what was not seen.

    Args:
        numbers: what is known about each node, double.
        right: whether its answer is right.
    """
    x, kind = numbers.cpu().numpy(), right.cpu().numpy()
    penalty = min(PENALTIES, key=lambda penalty: _unseen_loss(x, kind, penalty))
    return _fitted(x, kind, penalty)


def _unseen_loss(x: Floats, kind: NDArray[np.bool_], penalty: float) -> float:
    order = np.random.default_rng(0).permutation(len(kind))
    part = np.empty(len(kind), dtype=int)
    part[order[np.argsort(kind[order], kind="stable")]] = np.arange(len(kind)) % PARTS
    prob = np.empty(len(kind))
    for number in range(PARTS):
        seen = part != number
        fitted = _fitted(x[seen], kind[seen], penalty)
        prob[~seen] = fitted(torch.from_numpy(x[~seen])).numpy()
    return float(-np.log(np.where(kind, prob, 1 - prob)).mean())


def _fitted(x: Floats, kind: NDArray[np.bool_], penalty: float) -> Chance:
    centre, width = x.mean(0), x.std(0)
    width = np.where(width > 1e-12, width, 1.0)
    even, count = (x - centre) / width, len(x)
    hits = int(kind.sum())
    # Platt's targets keep all numbers finite where every answer is right.
    target = np.where(kind, (hits + 1) / (hits + 2), 1 / (count - hits + 2))
    penalties = np.full(x.shape[1], penalty)
    penalties[0] = PENALTIES[0]

    def loss(line: Floats) -> tuple[float, Floats]:
        weights, value = line[:-1], even @ line[:-1] + line[-1]
        excess = (expit(value) - target) / count
        surprise = np.mean(np.logaddexp(0, value) - target * value)
        slopes = np.append(even.T @ excess + penalties * weights / count, excess.sum())
        return float(surprise + (penalties * weights**2).sum() / (2 * count)), slopes

    found = minimize(loss, np.zeros(x.shape[1] + 1), jac=True, method="L-BFGS-B").x
    parts = centre, width, found[:-1], found[-1:]
    return Chance(*(torch.from_numpy(np.array(part)) for part in parts))


def fitted_residual(error: Tensor, var: Tensor) -> tuple[float, float]:  # [nodes], [nodes]
    r"""The scale a and the residual b of least Gaussian surprise.

    .. math:: \min_{a, b \ge 0} \frac1n \sum_i \log v_i + \frac{e_i^2}{v_i}, \qquad
        v_i = a \sigma_i^2 + b

    It is not convex, so that the best of several starts is taken, each with another share of the
    error left to the inputs.

    Args:
        error: truth minus answer.
        var: variance of the answer.

    Returns:
        a and b.
    """
    square, given = (each.double().cpu().numpy() for each in (error.square(), var))
    size = float(square.mean())
    if size == 0:
        return 0.0, 0.0
    whole = float(given.mean())
    if whole == 0:
        return 0.0, size  # nothing but the residual: its best value is the mean square
    square, relative = square / size, given / whole

    def loss(parts: Floats) -> tuple[float, Floats]:
        v = np.maximum(parts[0] * relative + parts[1], 1e-12)
        slope = (1 - square / v) / v
        return float(np.mean(np.log(v) + square / v)), np.array(
            [np.mean(slope * relative), np.mean(slope)]
        )

    starts = [(share, 1 - share) for share in (0.05, 0.5, 0.95)]
    options = {"jac": True, "method": "L-BFGS-B", "bounds": [(0, None), (1e-9, None)]}
    best = min((minimize(loss, start, **options) for start in starts), key=lambda each: each.fun)
    return float(best.x[0]) * size / whole, float(best.x[1]) * size
