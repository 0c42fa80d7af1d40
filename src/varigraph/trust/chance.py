"""The chance that an answer is right, learned from answers whose truth is known."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.optimize import minimize
from scipy.special import expit
from torch import Tensor

#: Penalties on everything but the first number, of which validation chooses.
PENALTIES = (1.0, 10.0, 100.0)
#: Parts that the nodes are divided into to choose among them.
PARTS = 5
Floats = NDArray[np.float64]


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
