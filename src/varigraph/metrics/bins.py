"""Numbers in intervals: of equal width, or with equally many in each."""

from __future__ import annotations

import torch
from torch import Tensor

#: Intervals of equal width from 0 to 1 that a reliability diagram has.
BINS = 15


def equal_width(prob: Tensor, bins: int) -> Tensor:  # [pairs] -> [pairs]
    r"""The interval of each probability, :math:`\min(\lfloor p b \rfloor, b - 1)`.

    Each holds its lower end and not its upper one, except the last, which holds 1 as well.

    Example:
        >>> equal_width(torch.tensor([0.0, 0.5, 1.0]), 2).tolist()
        [0, 1, 1]
    """
    return (prob.double() * bins).long().clamp(0, bins - 1)


def equal_mass(values: Tensor, bins: int) -> Tensor:  # [pairs] -> [pairs]
    r"""The interval of each number: equally many in each, equal numbers together.

    .. math:: \left\lfloor \frac{b}{n} \left(n_< + \tfrac12 n_=\right) \right\rfloor

    with :math:`n_<` numbers that are smaller and :math:`n_=` that are equal. Without ties the
    intervals differ by at most one number; with ties some may be empty. The order of the numbers
    never matters.

    Example:
        >>> equal_mass(torch.tensor([0.4, 0.1, 0.2, 0.3]), 2).tolist()
        [1, 0, 0, 1]
    """
    _, place, count = values.unique(return_inverse=True, return_counts=True)
    smaller = count.cumsum(0) - count
    interval: Tensor = (2 * smaller + count) * bins // (2 * len(values))  # [different numbers]
    return interval[place]


def sums(values: Tensor, place: Tensor, size: int) -> Tensor:  # [pairs], [pairs] -> [size]
    """Sum of the numbers in each place, double."""
    return torch.zeros(size, dtype=torch.double, device=values.device).index_add_(
        0, place, values.double()
    )
