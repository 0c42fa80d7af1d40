"""How good a prediction is, and how honest its variance: pure functions of tensors."""

from varigraph.metrics.calibration import binary_ece, ece
from varigraph.metrics.classification import accuracy, binary_brier, brier, cross_entropy, log_loss
from varigraph.metrics.error_spotting import (
    ErrorSpotting,
    RiskCoverage,
    auroc,
    average_precision,
    risk_coverage,
    spot_errors,
)
from varigraph.metrics.node_groups import NodeGroups, ece_by_degree, ece_by_distance
from varigraph.metrics.score import Scores, score
from varigraph.metrics.variances import (
    VarianceCalibration,
    gaussian_nll,
    interval_coverage,
    per_class_nll,
    variance_calibration,
)

__all__ = [
    "ErrorSpotting",
    "NodeGroups",
    "RiskCoverage",
    "Scores",
    "VarianceCalibration",
    "accuracy",
    "auroc",
    "average_precision",
    "binary_brier",
    "binary_ece",
    "brier",
    "cross_entropy",
    "ece",
    "ece_by_degree",
    "ece_by_distance",
    "gaussian_nll",
    "interval_coverage",
    "log_loss",
    "per_class_nll",
    "risk_coverage",
    "score",
    "spot_errors",
    "variance_calibration",
]
