"""How well probabilities tell links from non-links, and how far they can be believed."""

from __future__ import annotations

import torch
from torch import Tensor

from varigraph.errors import GraphError, OptionError

#: Intervals of equal width from 0 to 1 that a reliability diagram has.
BINS = 15


def auc(scores: Tensor, real: Tensor) -> float:  # [pairs], [pairs] bool
    r"""Chance that a link scores higher than a non-link; equal scores count half.

    .. math:: P(s_+ > s_-) + \tfrac12 P(s_+ = s_-)

    Computed from the ranks, so it is exact, with ties and without.

    Args:
        scores: any numbers that are higher for likelier links.
        real: which pairs are links.

    Example:
        >>> auc(torch.tensor([0.9, 0.5, 0.5, 0.1]), torch.tensor([True, True, False, False]))
        0.875
    """
    _check(scores, real)
    links, others = _counts(scores, real)
    below = others.cumsum(0) - others
    return float((links * (below + others / 2)).sum() / (links.sum() * others.sum()))


def average_precision(scores: Tensor, real: Tensor) -> float:  # [pairs], [pairs] bool
    r"""Area under the curve of precision over recall, as a sum of steps.

    .. math:: \sum_t (R_t - R_{t - 1}) P_t

    over the different scores t, from the highest down: R is the share of links that score at
    least t, P the share of links among all that do.

    Args:
        scores: any numbers that are higher for likelier links.
        real: which pairs are links.

    Example:
        >>> average_precision(torch.tensor([0.9, 0.5, 0.1]), torch.tensor([False, True, False]))
        0.5
    """
    _check(scores, real)
    links, others = (count.flip(0) for count in _counts(scores, real))
    precision = links.cumsum(0) / (links + others).cumsum(0)
    return float((links / links.sum() * precision).sum())


def brier(prob: Tensor, real: Tensor) -> float:  # [pairs], [pairs] bool
    r"""Mean squared distance of the probabilities from 1 (links) and 0 (non-links).

    .. math:: \frac1n \sum_i (p_i - y_i)^2

    Example:
        >>> brier(torch.tensor([0.5, 1.0]), torch.tensor([True, True]))
        0.125
    """
    _check_probabilities(prob, real)
    return float((prob.double() - real.double()).square().mean())


def log_loss(prob: Tensor, real: Tensor) -> float:  # [pairs], [pairs] bool
    r"""How surprised the probabilities are by the truth, in nats.

    .. math:: -\frac1n \sum_i y_i \log p_i + (1 - y_i) \log(1 - p_i)

    Infinite where a pair was held to be certain and is not.

    Example:
        >>> round(log_loss(torch.tensor([0.5, 0.5]), torch.tensor([True, False])), 4)
        0.6931
    """
    _check_probabilities(prob, real)
    of_truth = torch.where(real, prob.double(), 1 - prob.double())
    return -float(of_truth.log().mean())


def ece(prob: Tensor, real: Tensor, *, bins: int = BINS) -> float:  # [pairs], [pairs] bool
    r"""Expected calibration error: how far probabilities are from frequencies, on average.

    .. math:: \sum_b \frac{n_b}{n} \left|\bar y_b - \bar p_b\right|

    over ``bins`` intervals of equal width; :math:`\bar p_b` is the mean probability in an
    interval and :math:`\bar y_b` the share of links. Even perfect probabilities have an error of
    about :math:`\sqrt{b / n}` times 0.3, because shares of finite numbers scatter.

    Example:
        >>> round(ece(torch.tensor([0.9, 0.9, 0.1]), torch.tensor([True, True, False])), 4)
        0.1
    """
    _check_probabilities(prob, real)
    interval = (prob.double() * bins).long().clamp_max(bins - 1)  # [pairs]
    excess = (real.double() - prob.double()) / len(prob)
    return float(excess.new_zeros(bins).index_add_(0, interval, excess).abs().sum())


def _counts(scores: Tensor, real: Tensor) -> tuple[Tensor, Tensor]:  # -> [scores], [scores]
    """How many links and how many non-links have each score, from the lowest up."""
    values, place = scores.unique(return_inverse=True)
    links, others = (torch.bincount(place[kind], minlength=len(values)) for kind in (real, ~real))
    return links.double(), others.double()


def _check(scores: Tensor, real: Tensor) -> None:
    if scores.dim() != 1 or scores.shape != real.shape or real.dtype != torch.bool:
        raise GraphError(
            f"scores have shape {tuple(scores.shape)}, real is {real.dtype} of "
            f"shape {tuple(real.shape)}",
            "give one score and one truth value for each pair: [pairs] and [pairs] bool",
        )
    if bool(scores.isnan().any()):
        raise GraphError("some scores are NaN", "leave out the pairs that have no score")
    if not 0 < int(real.sum()) < len(real):
        raise GraphError(
            f"{int(real.sum())} of {len(real)} pairs are links",
            "give at least one link and one non-link",
        )


def _check_probabilities(prob: Tensor, real: Tensor) -> None:
    if prob.dim() != 1 or prob.shape != real.shape or real.dtype != torch.bool or len(prob) == 0:
        raise GraphError(
            f"probabilities have shape {tuple(prob.shape)}, real is {real.dtype} of "
            f"shape {tuple(real.shape)}",
            "give one probability and one truth value for each pair: [pairs] and [pairs] bool",
        )
    if not bool(((prob >= 0) & (prob <= 1)).all()):
        raise OptionError("some values are outside 0 to 1", "give probabilities: logits.sigmoid()")
