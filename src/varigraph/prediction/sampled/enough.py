"""How many draws are enough: rounds that each know all links should say the same."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from varigraph.prediction.sampled.tosses import ROUND

#: Rounds at least, and at most where runs go side by side.
FEWEST_ROUNDS, MOST_ROUNDS = 2, 8
#: Nine in ten variances should be within such a share of what more draws would say.
WITHIN, OF_ALL = 0.25, 0.9
#: Variances of an answer below this do not count.
SEEN = 1e-6
#: Numbers that are looked at.
MOST_NUMBERS = 2**20


@dataclass(frozen=True)
class Enough:
    """When to stop drawing.

    Args:
        least: draws that are wanted in any case.
        most: draws that are taken run by run, if so many it must be.
    """

    least: int
    most: int

    def rounds(self, *, beside: bool) -> int:
        """How many rounds to be ready for.

        Args:
            beside: whether runs go side by side, and cost little.
        """
        most = max(self.most, MOST_ROUNDS * ROUND) if beside else self.most
        return math.ceil(max(most, self.least) / ROUND)

    def reached(self, by_round: Tensor) -> bool:  # [rounds, nodes, classes]
        """Whether the variances in each round are near enough to each other."""
        rounds = len(by_round)
        known = rounds >= FEWEST_ROUNDS and rounds * ROUND >= self.least
        return known and not_known(by_round) <= WITHIN


def not_known(by_round: Tensor) -> float:  # [rounds, nodes, classes]
    r"""Share by which nine in ten variances are off at most, as far as rounds tell.

    .. math::
        \frac{|V_r - \bar V|}{\bar V} \sqrt{\frac{R}{R - 1}} \cdot \frac{1}{\sqrt R}

    for R rounds of the variance V: how far one of them is from their mean, and so that mean from
    the truth.
    """
    each = by_round.flatten(1)
    each = each[:, :: 1 + each.numel() // MOST_NUMBERS]
    mean = each.mean(0)
    seen = mean > SEEN
    if not bool(seen.any()):
        return 0.0
    away = (each[:, seen] / mean[seen] - 1).abs() / math.sqrt(len(each) - 1)
    return float(torch.quantile(away.flatten(), OF_ALL))
