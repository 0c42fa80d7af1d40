"""Split-conformal prediction: sets of classes and intervals that hold as often as they say."""

from __future__ import annotations

import math

import torch
from torch import Tensor

#: How much neighbours count in diffused scores.
DIFFUSION = 0.5
#: Rounding of a level, which must not ask for one score more.
ROUNDING = 1e-9


def quantile(scores: Tensor, level: float) -> Tensor:  # [nodes, ...] -> [...]
    r"""The k-th smallest score, :math:`k = \lceil (n + 1) \cdot \text{level} \rceil`.

    A new score that is exchangeable with these is at most that with a chance of at least
    ``level``; where there are too few scores for that level, it is infinite.

    Example:
        >>> quantile(torch.tensor([3.0, 1.0, 2.0, 4.0]), 0.8), 4 / 5
        (tensor(4.), 0.8)
    """
    count, place = len(scores), _place(len(scores), level)
    if place > count:
        return torch.full_like(scores[0], torch.inf)
    return scores.sort(0).values[place - 1]


def fewest(level: float) -> int:
    """Scores without which a new one may always be the highest.

    Example:
        >>> fewest(0.9), fewest(0.5)
        (9, 1)
    """
    return math.ceil(level / (1 - level) - ROUNDING)


def _place(count: int, level: float) -> int:
    return math.ceil((count + 1) * level - ROUNDING)


def least_likely(prob: Tensor) -> Tensor:  # [nodes, classes]
    r"""How strange each class would be as the truth: :math:`1 - p_c`.

    Gives the smallest sets on average (Sadinle et al. 2019, `<https://arxiv.org/abs/1609.00451>`_).
    """
    return 1 - prob


def cumulative(prob: Tensor) -> Tensor:  # [nodes, classes]
    r"""The probability of all classes that are at least as likely: :math:`\sum_{p_d \ge p_c} p_d`.

    Sets grow where a node is hard (Romano et al. 2020, `<https://arxiv.org/abs/2006.02544>`_);
    without the coin that their paper throws at the border of a set.

    Example:
        >>> cumulative(torch.tensor([[0.25, 0.5, 0.25]])).tolist()
        [[1.0, 0.5, 1.0]]
    """
    up_to = prob.sort(1, descending=True).values.cumsum(1)
    up_to[:, -1] = 1  # rounding must not tell apart what is alike
    # Equally likely classes are in together, whatever their order.
    last = (prob[:, None, :] >= prob[:, :, None]).sum(2) - 1
    return up_to.gather(1, last)


def degrees(edge_index: Tensor, nodes: int) -> Tensor:  # [2, edges] -> [nodes]
    """How many links lead to each node, double."""
    return torch.bincount(edge_index[1], minlength=nodes).double()


def neighbours_mean(values: Tensor, edge_index: Tensor) -> Tensor:  # [nodes, width], [2, edges]
    r"""The mean of what the neighbours of each node have; a node without any keeps its own.

    .. math:: \frac{1}{|N(i)|} \sum_{j \in N(i)} v_j

    Example:
        >>> values = torch.tensor([[1.0], [2.0], [6.0]])
        >>> neighbours_mean(values, torch.tensor([[1, 2], [0, 0]])).flatten().tolist()
        [4.0, 2.0, 6.0]
    """
    source, target = edge_index
    total = torch.zeros_like(values).index_add_(0, target, values[source])
    count = degrees(edge_index, len(values)).to(values)[:, None]
    return torch.where(count > 0, total / count.clamp_min(1), values)


def diffused(scores: Tensor, edge_index: Tensor, share: float = DIFFUSION) -> Tensor:
    r"""Scores smoothed over neighbours (DAPS, Zargarbashi et al. 2023).

    .. math:: (1 - \lambda) s_i + \frac{\lambda}{|N(i)|} \sum_{j \in N(i)} s_j

    Neighbours tend to be of one class, so that sets get smaller; no truth is looked at, so that
    what holds for other scores holds for these.

    Args:
        scores: of all nodes, ``[nodes, classes]``.
        edge_index: the links, ``[2, edges]``.
        share: how much neighbours count.
    """
    return (1 - share) * scores + share * neighbours_mean(scores, edge_index)


SCORES = {"threshold": least_likely, "adaptive": cumulative}
