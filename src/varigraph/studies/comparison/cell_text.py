"""Numbers as the tables print them."""

from __future__ import annotations

import math

from varigraph.studies.comparison.results import Figure

NONE = "–"
#: Measures that are shares and printed in per cent.
PER_CENT = "accuracy"
#: Digits behind the point; where none are given, two that count.
DIGITS = {"accuracy": 2, "per_class_nll": 2, "training_seconds": 1, "prediction_seconds": 1}
THREE = ("cross_entropy", "brier", "ece", "auroc", "confidence_auroc", "risk_coverage_area")


def figure_text(figure: Figure | None, metric: str) -> str:
    """Mean ± standard deviation over seeds, a dash where there is no number.

    Args:
        figure: to print.
        metric: decides the number of digits.

    Example:
        >>> figure_text(Figure(0.8512, 0.004, 5), "accuracy")
        '85.12 ± 0.40'
    """
    if figure is None:
        return NONE
    spread = "" if math.isnan(figure.std) else f" ± {number_text(figure.std, metric)}"
    return f"{number_text(figure.mean, metric)}{spread}"


def number_text(value: float | None, metric: str) -> str:
    """One number, with the digits of its measure.

    Args:
        value: to print; None is a dash.
        metric: what it measures.

    Example:
        >>> number_text(0.00123, "total"), number_text(1234.5, "per_class_nll")
        ('0.0012', '1e+03')
    """
    if value is None:
        return NONE
    if metric == PER_CENT:
        value *= 100
    if abs(value) >= 1000:
        return f"{value:.0e}"
    if metric in DIGITS:
        return f"{value:.{DIGITS[metric]}f}"
    if metric in THREE:
        return f"{value:.3f}"
    return f"{value:.4f}" if abs(value) >= 1e-3 or value == 0 else f"{value:.0e}"
