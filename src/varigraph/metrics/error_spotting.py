"""Whether uncertainty finds errors: ranking, risk over coverage."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from varigraph.errors import GraphError
from varigraph.metrics.calibration import sums
from varigraph.metrics.inputs import Numbers, check_both_kinds, check_classes, check_truth, tensors


@dataclass(frozen=True)
class ErrorSpotting:
    r"""How well an uncertainty finds errors, and beside it how well a confidence does.

    Confidence is the highest probability of a node; as an uncertainty it is
    :math:`1 - \max_c y_{ic}`. The ranking scores are None where all nodes are right or all
    are wrong, since there is then nothing to tell apart; the areas are 0 or 1 there.

    Args:
        auroc: chance that an error is more uncertain than a right answer.
        average_precision: of finding errors by falling uncertainty.
        risk_coverage_area: mean share of errors among the most certain nodes; lower is better.
        confidence_auroc: ``auroc`` of the confidence.
        confidence_average_precision: ``average_precision`` of the confidence.
        confidence_risk_coverage_area: ``risk_coverage_area`` of the confidence.
    """

    auroc: float | None
    average_precision: float | None
    risk_coverage_area: float
    confidence_auroc: float | None
    confidence_average_precision: float | None
    confidence_risk_coverage_area: float


def spot_errors(
    mean: Numbers, labels: Numbers, uncertainty: Numbers, *, plain: Numbers | None = None
) -> ErrorSpotting:
    r"""How well an uncertainty :math:`u_i` finds :math:`\arg\max_c \bar y_{ic} \neq y_i`.

    Args:
        mean: expected class probabilities, ``[nodes, classes]``.
        labels: true classes, integers from 0, ``[nodes]``.
        uncertainty: any numbers that are higher for less certain nodes, ``[nodes]``, such as
            ``-pred.trust`` or ``pred.total.sum(dim=1)``.
        plain: class probabilities of the rival, ``pred.plain``, whose confidence is to find its own
            errors, ``[nodes, classes]``; by default the confidence is that of ``mean``.

    Example:
        >>> import torch
        >>> mean = torch.tensor([[0.9, 0.1], [0.6, 0.4], [0.3, 0.7]])
        >>> spotted = spot_errors(mean, torch.tensor([0, 0, 0]), torch.tensor([0.1, 0.2, 0.3]))
        >>> spotted.auroc, spotted.confidence_auroc
        (1.0, 0.5)
    """
    mean, labels = check_classes(mean, labels)
    (uncertainty,) = tensors(uncertainty=uncertainty)
    if uncertainty.shape != labels.shape:
        raise GraphError(
            f"uncertainty has shape {tuple(uncertainty.shape)}, but there are {len(labels)} nodes",
            "give one number for each node: pred.total.sum(dim=1)",
        )
    rival, _ = (mean, labels) if plain is None else check_classes(plain, labels)
    confidence, best = rival.max(dim=1)
    ours = _spotted(uncertainty, mean.argmax(dim=1) != labels)
    theirs = _spotted(-confidence, best != labels)
    return ErrorSpotting(*ours, *theirs)


def _spotted(uncertainty: Tensor, wrong: Tensor) -> tuple[float | None, float | None, float]:
    area = risk_coverage(uncertainty, wrong).area
    if not 0 < int(wrong.sum()) < len(wrong):
        return None, None, area
    return auroc(uncertainty, wrong), average_precision(uncertainty, wrong), area


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
