"""Whether uncertainty finds the nodes that are classified wrongly."""

from __future__ import annotations

from dataclasses import dataclass

from varigraph.errors import GraphError
from varigraph.metrics.checks import Numbers, check_classes, tensors
from varigraph.metrics.ranking import auroc, average_precision
from varigraph.metrics.risk_coverage import risk_coverage


@dataclass(frozen=True)
class ErrorSpotting:
    r"""How well an uncertainty finds errors, and beside it how well plain confidence does.

    Plain confidence is the highest expected probability of a node; as an uncertainty it is
    :math:`1 - \max_c \bar y_{ic}`. The ranking scores are None where all nodes are right or all
    are wrong, since there is then nothing to tell apart; the areas are 0 or 1 there.

    Args:
        auroc: chance that an error is more uncertain than a right answer.
        average_precision: of finding errors by falling uncertainty.
        risk_coverage_area: mean share of errors among the most certain nodes; lower is better.
        confidence_auroc: ``auroc`` of plain confidence.
        confidence_average_precision: ``average_precision`` of plain confidence.
        confidence_risk_coverage_area: ``risk_coverage_area`` of plain confidence.
    """

    auroc: float | None
    average_precision: float | None
    risk_coverage_area: float
    confidence_auroc: float | None
    confidence_average_precision: float | None
    confidence_risk_coverage_area: float


def spot_errors(mean: Numbers, labels: Numbers, uncertainty: Numbers) -> ErrorSpotting:
    r"""How well an uncertainty :math:`u_i` finds :math:`\arg\max_c \bar y_{ic} \neq y_i`.

    Args:
        mean: expected class probabilities, ``[nodes, classes]``.
        labels: true classes, integers from 0, ``[nodes]``.
        uncertainty: any numbers that are higher for less certain nodes, ``[nodes]``, such as
            ``pred.total.sum(dim=1)``.

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
    confidence, best = mean.max(dim=1)
    wrong = best != labels
    mixed = 0 < int(wrong.sum()) < len(wrong)
    return ErrorSpotting(
        auroc=auroc(uncertainty, wrong) if mixed else None,
        average_precision=average_precision(uncertainty, wrong) if mixed else None,
        risk_coverage_area=risk_coverage(uncertainty, wrong).area,
        confidence_auroc=auroc(-confidence, wrong) if mixed else None,
        confidence_average_precision=average_precision(-confidence, wrong) if mixed else None,
        confidence_risk_coverage_area=risk_coverage(-confidence, wrong).area,
    )
