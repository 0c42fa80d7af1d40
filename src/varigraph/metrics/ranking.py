"""How well scores put what is true before what is not."""

from __future__ import annotations

import torch
from torch import Tensor

from varigraph.metrics.checks import Numbers, check_both_kinds, check_truth


def auroc(scores: Numbers, real: Numbers) -> float:  # [pairs], [pairs] bool
    r"""Chance that something true scores higher than something false; equal scores count half.

    .. math:: P(s_+ > s_-) + \tfrac12 P(s_+ = s_-)

    The area under the receiver operating characteristic, computed from the ranks, so it is exact,
    with ties and without.

    Args:
        scores: any numbers that are higher for what is likelier.
        real: what is true; some must be, and some must not.

    Example:
        >>> auroc(torch.tensor([0.9, 0.5, 0.5, 0.1]), torch.tensor([True, True, False, False]))
        0.875
    """
    hits, others = _counts(scores, real)
    below = others.cumsum(0) - others
    return float((hits * (below + others / 2)).sum() / (hits.sum() * others.sum()))


def average_precision(scores: Numbers, real: Numbers) -> float:  # [pairs], [pairs] bool
    r"""Area under the curve of precision over recall, as a sum of steps.

    .. math:: \sum_t (R_t - R_{t - 1}) P_t

    over the different scores t, from the highest down: R is the share of what is true that scores
    at least t, P the share of what is true among all that do. It never exceeds 1, by no rounding.

    Args:
        scores: any numbers that are higher for what is likelier.
        real: what is true; some must be, and some must not.

    Example:
        >>> average_precision(torch.tensor([0.9, 0.5, 0.1]), torch.tensor([False, True, False]))
        0.5
    """
    hits, others = (count.flip(0) for count in _counts(scores, real))
    precision = hits.cumsum(0) / (hits + others).cumsum(0)
    # Whole numbers are summed before the division: no rounding can then pass their sum.
    return float((hits * precision).sum() / hits.sum())


def _counts(scores: Numbers, real: Numbers) -> tuple[Tensor, Tensor]:  # -> [scores], [scores]
    """How many are true and how many are false at each score, from the lowest up."""
    scores, real = check_truth(scores, real)
    check_both_kinds(real)
    values, place = scores.unique(return_inverse=True)
    hits, others = (torch.bincount(place[kind], minlength=len(values)) for kind in (real, ~real))
    return hits.double(), others.double()
