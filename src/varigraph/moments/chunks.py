"""Work in pieces: what is computed at once fits in a cache, or in the memory that there is."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor

#: Numbers that are held at once: some megabytes.
AT_ONCE = 2**20


def row_slices(nodes: int, numbers: int) -> Iterator[slice]:
    """Slices of the nodes such that what is computed at once fits in a processor's cache.

    Args:
        nodes: how many there are.
        numbers: how many numbers each of them needs.
    """
    step = max(1, AT_ONCE // numbers)
    return (slice(first, first + step) for first in range(0, nodes, step))


def blocks_within(rows: Tensor, cost: Tensor, memory: float) -> Iterator[Tensor]:
    """Blocks of rows that together cost no more than a bound; what costs more alone is alone.

    Args:
        rows: the output nodes.
        cost: bytes for each of them, ``[rows]``.
        memory: the bound.
    """
    total, first = cost.double().cumsum(0), 0
    while first < len(rows):
        spent = float(total[first - 1]) if first else 0.0
        end = int(torch.searchsorted(total, spent + memory, right=True))
        end = max(end, first + 1)
        yield rows[first:end]
        first = end
