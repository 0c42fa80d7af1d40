"""The data of a page's charts."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from varigraph.metrics import risk_coverage
from varigraph.metrics.calibration import Reliability
from varigraph.prediction.prediction import PARTS
from varigraph.quantify.levels import Levels
from varigraph.reporting.page.compact import rounded
from varigraph.reporting.page.subject import Subject
from varigraph.reporting.page.variance_bins import VarianceBins

#: Points of a curve; more cannot be told apart on a screen.
POINTS = 300


def figures(subject: Subject, levels: Levels) -> dict[str, Any]:
    """One entry for each chart; None where there is nothing to draw.

    Args:
        subject: of the page.
        levels: what was measured at each level of noise.
    """
    judged = subject.wrong is not None and bool(subject.scored.any())
    return {
        "reliability": _reliability(subject) if judged else None,
        "risk": _risk(subject) if judged else None,
        "noise": _noise(levels) if levels else None,
        "histogram": _histogram(subject, judged=judged),
    }


def _reliability(subject: Subject) -> dict[str, Any]:
    confidence, right = _confidence(subject), ~_wrong(subject)
    found = Reliability.of(confidence, right)
    curves = ("predicted", "observed", "low", "high", "start")
    return {
        **{name: rounded(getattr(found, name)) for name in curves},
        "count": found.count.tolist(),
        "width": found.width,
    }


def _risk(subject: Subject) -> dict[str, Any]:
    wrong = _wrong(subject)
    uncertainty = {"ours": subject.variance[subject.scored], "confidence": -_confidence(subject)}
    return {name: _curve(values, wrong) for name, values in uncertainty.items()}


def _curve(uncertainty: Tensor, wrong: Tensor) -> dict[str, Any]:  # [nodes], [nodes]
    found = risk_coverage(uncertainty, wrong)
    count = len(found.risk)
    kept = torch.linspace(0, count - 1, min(POINTS, count)).round().long()
    return {
        "coverage": rounded(found.coverage[kept]),
        "risk": rounded(found.risk[kept]),
        "area": found.area,
    }


def _noise(levels: Levels) -> dict[str, Any]:
    ordered = sorted(levels, key=lambda level: level.noise)
    return {
        "level": [level.noise for level in ordered],
        "parts": {part: [level.scores.by_source[part] for level in ordered] for part in PARTS},
        "accuracy": [level.scores.accuracy for level in ordered],
    }


def _histogram(subject: Subject, *, judged: bool) -> dict[str, Any] | None:
    nodes = subject.scored if judged else torch.ones_like(subject.scored)
    wrong = _wrong(subject) if judged else torch.zeros(len(subject.mean), dtype=torch.bool)
    found = VarianceBins.of(subject.variance[nodes], wrong)
    if found is None:
        return None
    counts = {"right": found.right.tolist(), "wrong": found.wrong.tolist() if judged else None}
    return {"edges": rounded(found.edges), **counts}


def _confidence(subject: Subject) -> Tensor:  # [scored nodes]
    return subject.mean[subject.scored].max(1).values.clamp(0, 1)


def _wrong(subject: Subject) -> Tensor:  # [scored nodes] bool
    assert subject.wrong is not None
    return subject.wrong[subject.scored]
