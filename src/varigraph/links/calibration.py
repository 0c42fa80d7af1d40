"""From scores to probabilities that come true as often as they say."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.optimize import isotonic_regression, minimize
from scipy.special import expit
from torch import Tensor

from varigraph.metrics import log_loss

#: Parts into which the pairs are divided to compare the two ways.
PARTS = 5
Floats = NDArray[np.float64]


class Calibration(Protocol):
    """Turns scores into probabilities, never decreasing."""

    @property
    def name(self) -> str:
        """What it is called in the record of quality."""

    def __call__(self, logits: Tensor) -> Tensor:  # [pairs] -> [pairs]
        """The probability of each pair, double, strictly between 0 and 1."""


Fit = Callable[[Tensor, Tensor], Calibration]


@dataclass(frozen=True)
class Scaled:
    r"""The score stretched and shifted.

    .. math:: p = \frac{1}{1 + e^{-(a s + b)}}

    Args:
        scale: a, not negative.
        shift: b.
    """

    scale: float
    shift: float
    name = "scaled"

    def __call__(self, logits: Tensor) -> Tensor:  # [pairs] -> [pairs]
        """The probability of each pair."""
        return _inside(torch.sigmoid(self.scale * logits.double() + self.shift))


@dataclass(frozen=True, eq=False)
class Isotonic:
    """Any rising curve: straight between its knots, level outside them.

    Args:
        logits: where the knots are, rising, ``[knots]``.
        prob: how high they are, rising, ``[knots]``.
    """

    logits: Floats
    prob: Floats
    name = "isotonic"

    def __call__(self, logits: Tensor) -> Tensor:  # [pairs] -> [pairs]
        """The probability of each pair."""
        prob = np.interp(logits.double().cpu().numpy(), self.logits, self.prob)
        return _inside(torch.from_numpy(prob).to(logits.device))


def calibration(logits: Tensor, real: Tensor, *, seed: int = 0) -> Calibration:
    """Whichever way of calibration does better on pairs that it did not see.

    Both are fitted to four fifths of the pairs and judged by their log loss on the rest, five
    times over; the better one is then fitted to all.

    Args:
        logits: scores of pairs that the model did not learn from, ``[pairs]``.
        real: which of them are links, ``[pairs]`` bool; at least one is and one is not.
        seed: of the division into fifths.
    """
    generator = torch.Generator().manual_seed(seed)
    mixed = torch.randperm(len(real), generator=generator).to(real.device)
    order = mixed[real[mixed].int().argsort(stable=True)]  # both kinds spread over all parts
    part = torch.empty_like(order)
    part[order] = torch.arange(len(order), device=order.device) % PARTS
    ways: tuple[Fit, ...] = (scaled, isotonic)
    return min(ways, key=lambda fit: _unseen_loss(fit, logits, real, part))(logits, real)


def scaled(logits: Tensor, real: Tensor) -> Scaled:  # [pairs], [pairs] bool
    r"""The scale and the shift of least log loss.

    Links count as :math:`\frac{n_+ + 1}{n_+ + 2}` and non-links as :math:`\frac{1}{n_- + 2}`
    (Platt 1999), which keeps both numbers finite where the scores separate the kinds.
    """
    score, kind = logits.double().cpu().numpy(), real.cpu().numpy()
    links, others = int(kind.sum()), int((~kind).sum())
    target = np.where(kind, (links + 1) / (links + 2), 1 / (others + 2))
    centre, width = score.mean(), score.std() or 1.0
    even = (score - centre) / width

    def loss(line: Floats) -> tuple[float, Floats]:
        value = line[0] * even + line[1]
        excess = (expit(value) - target) / len(even)
        slopes = np.array([excess @ even, excess.sum()])
        return float(np.mean(np.logaddexp(0, value) - target * value)), slopes

    bounds = [(0, None), (None, None)]
    found = minimize(loss, [1.0, 0.0], jac=True, method="L-BFGS-B", bounds=bounds)
    scale = float(found.x[0]) / width
    return Scaled(scale, float(found.x[1]) - scale * centre)


def isotonic(logits: Tensor, real: Tensor) -> Isotonic:  # [pairs], [pairs] bool
    r"""The rising curve of least squared error, kept within :math:`\frac{1}{n + 2}` of 0 and 1.

    The best fit is a staircase. Its steps stay level; from the end of one to the beginning of
    the next the curve is straight.
    """
    score, place = np.unique(logits.double().cpu().numpy(), return_inverse=True)
    count = np.bincount(place)
    share = np.bincount(place, weights=real.cpu().numpy()) / count
    stairs = isotonic_regression(share, weights=count)
    ends = np.unique([stairs.blocks[:-1], stairs.blocks[1:] - 1])
    edge = 1 / (len(logits) + 2)
    return Isotonic(score[ends], stairs.x[ends].clip(edge, 1 - edge))


def _unseen_loss(fit: Fit, logits: Tensor, real: Tensor, part: Tensor) -> float:
    prob = torch.empty_like(logits, dtype=torch.double)
    for number in range(PARTS):
        seen = part != number
        prob[~seen] = fit(logits[seen], real[seen])(logits[~seen])
    return log_loss(prob, real)


def _inside(prob: Tensor) -> Tensor:  # [pairs] -> [pairs]
    tiny = torch.finfo(torch.float32).eps  # what float32 can still tell from 1
    return prob.clamp(tiny, 1 - tiny)
