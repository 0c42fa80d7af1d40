"""The figures at the top of a page."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from varigraph.metrics import accuracy, ece, interval_coverage, spot_errors
from varigraph.prediction.prediction import PARTS
from varigraph.reporting.page.subject import Subject


def headline(subject: Subject) -> dict[str, Any]:
    """Cards with a label, a value and a hint, and each source's share of the variance.

    Args:
        subject: of the page.
    """
    return {
        "cards": [
            dict(zip(("label", "value", "hint"), card, strict=True)) for card in _cards(subject)
        ],
        "shares": shares(subject.by_source),
    }


def shares(by_source: Tensor) -> dict[str, float]:  # [parts, nodes, outputs]
    """Each source's part of the mean variance, adding up to 1; all 0 where nothing is uncertain.

    Args:
        by_source: variance due to each source.
    """
    means = by_source.flatten(1).mean(1)
    total = means.sum()
    return dict(zip(PARTS, (means / total.where(total > 0, 1)).tolist(), strict=True))


Card = tuple[str, str, str]


def _cards(subject: Subject) -> list[Card]:
    size = ("Nodes", f"{len(subject.mean):,}", "in the graph")
    if subject.truth is None or not bool(subject.scored.any()):
        return [size, _spread(subject)]
    judged = _classified(subject, subject.truth) if subject.classification else _valued(subject)
    return [*judged, _spread(subject), size]


def _classified(subject: Subject, truth: Tensor) -> list[Card]:
    nodes = subject.scored
    mean, labels = subject.mean[nodes], truth[nodes]
    spotted = spot_errors(mean, labels, subject.variance[nodes])
    cards = [
        ("Accuracy", f"{100 * accuracy(mean, labels):.1f} %", f"of {subject.scored_as}"),
        (
            "Calibration error",
            f"{100 * ece(mean, labels):.1f} %",
            "mean gap to the share of right answers",
        ),
    ]
    if spotted.auroc is not None and spotted.confidence_auroc is not None:
        cards.append(
            (
                "Errors found",
                f"{spotted.auroc:.3f}",
                f"AUROC of our variance; of plain confidence {spotted.confidence_auroc:.3f}",
            )
        )
    return cards


def _valued(subject: Subject) -> list[Card]:
    assert subject.truth is not None
    nodes = subject.scored
    mean, var, truth = subject.mean[nodes], subject.total[nodes], subject.truth[nodes]
    error = (mean - truth).square().mean().sqrt()
    return [
        ("Root mean square error", f"{error:.3g}", f"of {subject.scored_as}"),
        (
            "Within 90 % intervals",
            f"{100 * interval_coverage(mean, var, truth):.1f} %",
            "of the true values",
        ),
    ]


def _spread(subject: Subject) -> Card:
    what = "a class probability" if subject.classification else "an answer"
    std = subject.total.mean().sqrt()
    return ("Typical error bar", f"± {std:.2g}", f"of {what}, root of the mean variance")
