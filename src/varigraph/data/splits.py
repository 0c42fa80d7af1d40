"""Which nodes are for training, which for tuning and which for testing."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from varigraph.errors import OptionError


@dataclass(frozen=True, eq=False)
class Split:
    """Three masks that cover every node exactly once.

    Args:
        train: nodes to fit on.
        val: nodes to choose options on.
        test: nodes to report on.
    """

    train: Tensor  # [nodes] bool
    val: Tensor  # [nodes] bool
    test: Tensor  # [nodes] bool


def random_split(nodes: int, *, seed: int = 0) -> Split:
    """70 % of the nodes for training, 10 % for validation, the rest for testing, at random.

    Shares are rounded down, so the test part gets what is left over. The draw has a generator of
    its own: the global random state stays as it was.

    Args:
        nodes: how many nodes there are.
        seed: the same seed gives the same split.

    Raises:
        OptionError: if there are no nodes to split.

    Example:
        >>> split = random_split(10, seed=1)
        >>> [int(mask.sum()) for mask in (split.train, split.val, split.test)]
        [7, 1, 2]
    """
    if nodes < 1:
        raise OptionError(f"cannot split {nodes} nodes", "give a graph that has nodes")
    place = torch.randperm(nodes, generator=torch.Generator().manual_seed(seed))  # [nodes]
    train, val = nodes * 70 // 100, nodes * 10 // 100
    return Split(
        train=place < train,
        val=(place >= train) & (place < train + val),
        test=place >= train + val,
    )
