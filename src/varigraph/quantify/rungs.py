"""One rung of a ladder: a prediction where an input is a little less sure than on the last."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from torch import Tensor

from varigraph.metrics import accuracy, brier, cross_entropy, ece
from varigraph.prediction.sources.source import all_parts


@dataclass(frozen=True)
class Rung:
    """How uncertain and how wrong a prediction is at one level of an input's uncertainty.

    Args:
        level: of the input's uncertainty, in per cent.
        input_var: the same as a variance: that of a feature, or the mean one of a link.
        accuracy: share of nodes classified right, 0 to 1.
        cross_entropy: prediction loss in nats.
        brier: summed over classes, 0 to 2.
        ece: expected calibration error.
        total: mean variance of the class probabilities.
        by_source: the variance due to ``features``, ``links``, ``weights`` and ``interactions``.
    """

    level: float
    input_var: float
    accuracy: float
    cross_entropy: float
    brier: float
    ece: float
    total: float
    by_source: Mapping[str, float]


def rung(
    mean: Tensor,  # [nodes, classes]
    by_source: Mapping[str, Tensor],  # each [nodes, classes]
    labels: Tensor,  # [nodes]
    *,
    level: float,
    input_var: float,
) -> Rung:
    """All scores of one prediction, averaged over nodes (and classes).

    Args:
        mean: expected class probabilities of the nodes to score.
        by_source: the parts of their variances, as :class:`~varigraph.prediction.Prediction` has
            them.
        labels: true classes.
        level: of the input's uncertainty, in per cent.
        input_var: the same as a variance.
    """
    means = {part: float(by_source[part].double().mean()) for part in all_parts()}
    return Rung(
        level=level,
        input_var=input_var,
        accuracy=accuracy(mean, labels),
        cross_entropy=cross_entropy(mean, labels),
        brier=brier(mean, labels),
        ece=ece(mean, labels),
        total=sum(means.values()),
        by_source=means,
    )
