"""Variances counted in intervals that grow by the same factor."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

#: Intervals of a histogram.
BINS = 40
#: How far below the largest variance the first interval starts; what is below falls into it.
DECADES = 6


@dataclass(frozen=True, eq=False)
class VarianceBins:
    """How many nodes there are in each interval of variance.

    Args:
        edges: where the intervals begin, and where the last one ends, ``[intervals + 1]``.
        right: nodes classified right, or all nodes where the truth is unknown, ``[intervals]``.
        wrong: nodes classified wrongly, ``[intervals]``.
    """

    edges: Tensor
    right: Tensor
    wrong: Tensor

    @classmethod
    def of(cls, var: Tensor, wrong: Tensor, *, bins: int = BINS) -> VarianceBins | None:
        """Count; None where no variance is above 0.

        Args:
            var: variances, ``[nodes]``.
            wrong: which nodes are classified wrongly, ``[nodes]`` bool.
            bins: number of intervals.

        Example:
            >>> var, wrong = torch.tensor([1.0, 10.0]), torch.tensor([True, False])
            >>> found = VarianceBins.of(var, wrong, bins=2)
            >>> found.right.tolist(), found.wrong.tolist()
            ([0, 1], [1, 0])
        """
        var = var.detach().cpu().double()
        above = var[var > 0]
        if len(above) == 0:
            return None
        high = float(above.max()) * (1 + 1e-9)
        low = max(float(above.min()), high / 10**DECADES)
        low = min(low, high / 1.01)  # equal variances still need an interval to be in
        edges = torch.logspace(math.log10(low), math.log10(high), bins + 1, dtype=torch.float64)
        place = (torch.bucketize(var, edges, right=True) - 1).clamp(0, bins - 1)
        counts = (torch.bincount(place[kind], minlength=bins) for kind in (~wrong, wrong))
        return cls(edges, *counts)
