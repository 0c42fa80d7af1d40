"""All scores of one prediction: those of the paper, and those that it left out."""

from __future__ import annotations

import math
from dataclasses import asdict

from torch import Tensor

from varigraph.metrics import accuracy, brier, cross_entropy, ece, per_class_nll, spot_errors
from varigraph.prediction import Prediction


def scores_of(prediction: Prediction, labels: Tensor, nodes: Tensor) -> dict[str, float | None]:
    """Scores by name; None where there is nothing to score.

    ``total``, ``aleatoric`` and ``epistemic`` are variances, averaged over nodes and classes.
    Errors are spotted by the total variance, summed over classes; where all variances are 0 there
    is nothing to spot them by, and no ``per_class_nll`` either.

    Args:
        prediction: of all nodes.
        labels: true classes of all nodes, ``[nodes]``.
        nodes: the nodes to score, a mask ``[nodes]``.
    """
    mean, truth = prediction.mean[nodes], labels[nodes]
    variances = {
        "total": prediction.total[nodes].double(),
        "aleatoric": prediction.aleatoric[nodes].double(),
        "epistemic": prediction.epistemic[nodes].double(),
    }
    total = variances["total"].clamp_min(0)  # differences of draws may fall short of 0
    spotted = asdict(spot_errors(mean, truth, total.sum(dim=1)))
    certain = not bool(total.any())
    if certain:
        spotted |= {name: None for name in spotted if not name.startswith("confidence")}
    found = {
        "accuracy": accuracy(mean, truth),
        "cross_entropy": cross_entropy(mean, truth),
        "per_class_nll": None if certain else per_class_nll(mean, total, truth),
        **{name: float(var.mean()) for name, var in variances.items()},
        "brier": brier(mean, truth),
        "ece": ece(mean, truth),
        **spotted,
    }
    return {name: _finite(value) for name, value in found.items()}


def _finite(value: float | None) -> float | None:
    return value if value is not None and math.isfinite(value) else None
