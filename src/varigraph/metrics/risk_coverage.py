"""How the share of errors grows as less certain answers are accepted."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from varigraph.metrics.bins import sums
from varigraph.metrics.checks import Numbers, check_truth


@dataclass(frozen=True, eq=False)
class RiskCoverage:
    """The curve of risk over coverage: one point for each level of uncertainty, lowest first.

    Args:
        coverage: share of nodes that are no more uncertain than the level, ``[levels]``.
        risk: share of errors among them, ``[levels]``.
        area: mean risk over all numbers of nodes that can be accepted; lower is better.
        optimal_area: the area if every error were more uncertain than every right answer.
    """

    coverage: Tensor
    risk: Tensor
    area: float
    optimal_area: float

    @property
    def excess_area(self) -> float:
        """How much larger the area is than the best one for as many errors."""
        return self.area - self.optimal_area


def risk_coverage(uncertainty: Numbers, wrong: Numbers) -> RiskCoverage:  # [nodes], [nodes] bool
    r"""Share of errors among the k most certain nodes, for every k.

    .. math:: \text{area} = \frac1n \sum_{k=1}^n r_k, \qquad
        r_k = \frac1k \sum_{i \le k} E\left[w_{(i)}\right]

    with the nodes in order of uncertainty; :math:`w_{(i)}` says whether the i-th is wrong. Nodes
    of equal uncertainty enter the curve together. For the area they come in random order, and the
    expectation over all orders is taken, exactly.

    Args:
        uncertainty: any numbers that are higher for less certain nodes.
        wrong: which nodes are classified wrongly.

    Example:
        >>> found = risk_coverage(torch.tensor([0.1, 0.2, 0.3]), torch.tensor([False, True, False]))
        >>> found.risk.tolist(), round(found.area, 4), round(found.optimal_area, 4)
        ([0.0, 0.5, 0.3333333333333333], 0.2778, 0.1111)
    """
    uncertainty, wrong = check_truth(uncertainty, wrong)
    _, place, count = uncertainty.unique(return_inverse=True, return_counts=True)
    errors = sums(wrong, place, len(count))  # [levels]
    accepted = count.cumsum(0)
    # Within a tie each place is an error with the same chance, so expected errors grow evenly.
    chance = (errors / count).repeat_interleave(count)  # [nodes]
    best = torch.arange(len(wrong), device=wrong.device) >= len(wrong) - int(wrong.sum())
    return RiskCoverage(
        coverage=accepted / accepted[-1].double(),
        risk=errors.cumsum(0) / accepted,
        area=_area(chance),
        optimal_area=_area(best.double()),
    )


def _area(chance: Tensor) -> float:  # [nodes], from the most certain on
    accepted = torch.arange(1, len(chance) + 1, device=chance.device)
    return float((chance.cumsum(0) / accepted).mean())
