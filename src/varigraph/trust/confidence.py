"""How far each answer can be trusted, and how much of the doubt is due to what is uncertain."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor


def trust(mean: Tensor, std: Tensor, task: str) -> Tensor:  # [rows, outputs] each -> [rows]
    r"""Higher for answers that are likelier to be right.

    .. math::
        \max_c \bar y_c \qquad \frac1L \sum_l \max(\bar y_l, 1 - \bar y_l) \qquad
        -\frac1L \sum_l \sigma_l

    for one class of several: the chance that the answer is right, if the probabilities are
    calibrated; for labels, of which yes or no is one: the expected share of right ones; for
    values: minus their error bar.

    Args:
        mean: expected probabilities or values.
        std: their error bars.
        task: what they mean.

    Example:
        >>> mean = torch.tensor([[0.2, 0.8], [0.5, 0.5]])
        >>> std = torch.full_like(mean, 0.1)
        >>> trust(mean, std, "classification").tolist(), trust(mean, std, "regression").tolist()
        ([0.800000011920929, 0.5], [-0.10000000149011612, -0.10000000149011612])
    """
    if task == "regression":
        return -std.mean(1)
    if task == "classification":
        return mean.amax(1)
    return torch.maximum(mean, 1 - mean).mean(1)


class Doubt(NamedTuple):
    """The output of each row that is to be shown, and what its doubt consists of.

    Args:
        output: the answer itself among classes, else the least certain output, ``[rows]``.
        whole: variance of the truth around the answer, ``[rows]``.
        uncertain: how much of that is due to what is uncertain, ``[rows]``.
    """

    output: Tensor
    whole: Tensor
    uncertain: Tensor


def doubt(mean: Tensor, total: Tensor, task: str) -> Doubt:  # [rows, outputs] each
    r"""The variance of the truth around an answer that is right with probability y.

    .. math:: \bar y (1 - \bar y) = E[y (1 - y)] + V[y]

    by the law of total variance. The first term is what the network itself leaves open, however
    well its inputs were known; the second is the variance of its answer. Values have the second
    alone.

    Args:
        mean: expected probabilities or values.
        total: their variances.
        task: what they mean.
    """
    rows = torch.arange(len(mean), device=mean.device)
    if task == "regression":
        output = total.argmax(1)
        return Doubt(output, total[rows, output], total[rows, output])
    spread = mean * (1 - mean)
    output = mean.argmax(1) if task == "classification" else spread.argmax(1)
    # Sampling and rounding may put a variance beyond what a probability can have.
    whole = torch.maximum(spread[rows, output], total[rows, output])
    return Doubt(output, whole, total[rows, output])
