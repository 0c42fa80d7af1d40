"""What predictions say at several levels of noise: scores, and rungs of a ladder."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from varigraph.metrics import accuracy, brier, cross_entropy, ece
from varigraph.prediction.sources.source import about_network


@dataclass(frozen=True)
class Scores:
    """Scores of one prediction, averaged over nodes (and classes).

    Args:
        accuracy: share of nodes classified right, 0 to 1.
        cross_entropy: prediction loss in nats.
        total: mean variance of the class probabilities, aleatoric + epistemic.
        aleatoric: the part due to noisy features and uncertain links.
        epistemic: the part due to uncertain weights.
        by_source: the variance due to ``features``, ``links``, ``weights`` and ``interactions``.
    """

    accuracy: float
    cross_entropy: float
    total: float
    aleatoric: float
    epistemic: float
    by_source: Mapping[str, float]


@dataclass(frozen=True)
class Level:
    """What was measured at one level of noise.

    Args:
        noise: variance of the features, in per cent of their mean.
        scores: of the prediction.
    """

    noise: float
    scores: Scores


Levels = Sequence[Level]


def score(
    mean: Tensor,  # [nodes, classes]
    by_source: Mapping[str, Tensor],  # each [nodes, classes]
    labels: Tensor,  # [nodes]
) -> Scores:
    """All scores of one prediction.

    Args:
        mean: expected class probabilities of the nodes to score.
        by_source: the parts of their variances, as :class:`~varigraph.prediction.Prediction` has
            them.
        labels: true classes.
    """
    variances = {part: var.double() for part, var in by_source.items()}
    means = {part: float(var.mean()) for part, var in variances.items()}
    total = sum(variances.values(), torch.zeros(()))
    return Scores(
        accuracy=accuracy(mean, labels),
        cross_entropy=cross_entropy(mean, labels),
        total=float(total.mean()),
        aleatoric=sum(mean for part, mean in means.items() if part not in about_network()),
        epistemic=sum(means[part] for part in about_network()),
        by_source=means,
    )


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
    means = {part: float(var.double().mean()) for part, var in by_source.items()}
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
