"""How good a prediction is, and how honest its variance: pure functions of tensors."""

from varigraph.metrics.calibration_error import binary_ece, ece
from varigraph.metrics.classification import accuracy, brier, cross_entropy
from varigraph.metrics.error_spotting import ErrorSpotting, spot_errors
from varigraph.metrics.interval_coverage import interval_coverage
from varigraph.metrics.likelihood import gaussian_nll, per_class_nll
from varigraph.metrics.node_groups import NodeGroups, ece_by_degree, ece_by_distance
from varigraph.metrics.ranking import auroc, average_precision
from varigraph.metrics.risk_coverage import RiskCoverage, risk_coverage
from varigraph.metrics.truth_values import binary_brier, log_loss
from varigraph.metrics.variance_calibration import VarianceCalibration, variance_calibration

__all__ = [
    "ErrorSpotting",
    "NodeGroups",
    "RiskCoverage",
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
    "spot_errors",
    "variance_calibration",
]
