"""The numbers at the top of a page, and the data of its charts."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from varigraph.metrics import accuracy, risk_coverage, spot_errors
from varigraph.metrics.calibration import Reliability
from varigraph.quantify.levels import Levels
from varigraph.reporting.page.document import rounded
from varigraph.reporting.page.subject import LEVEL, PageSubject


def headline(subject: PageSubject) -> dict[str, Any]:
    """Cards with a label, a value and a hint, and each source's share of the variance.

    Args:
        subject: of the page.
    """
    return {
        "cards": [
            dict(zip(("label", "value", "hint"), card, strict=True)) for card in _cards(subject)
        ],
        "shares": shares(torch.stack([*map(subject.shown, subject.by_source)]), subject.parts),
    }


def shares(by_source: Tensor, parts: Sequence[str]) -> dict[str, float]:  # [parts, nodes]
    """Each source's part of the mean variance, adding up to 1; all 0 where nothing is uncertain.

    Args:
        by_source: variance due to each source.
        parts: their names.
    """
    means = by_source.mean(1)
    total = means.sum()
    return dict(zip(parts, (means / total.where(total > 0, 1)).tolist(), strict=True))


Card = tuple[str, str, str]


def _cards(subject: PageSubject) -> list[Card]:
    kind, where = ("Nodes", "in the graph") if subject.pairs is None else ("Pairs", "of nodes")
    size = (kind, f"{len(subject.mean):,}", where)
    if subject.truth is None or not bool(subject.scored.any()):
        return [size, _spread(subject)]
    judged = _classified(subject, subject.truth) if subject.classification else _valued(subject)
    return [*judged, _spread(subject), size]


def _classified(subject: PageSubject, truth: Tensor) -> list[Card]:
    nodes = subject.scored
    mean, labels = subject.mean[nodes], truth[nodes]
    plain = None if subject.plain is None else subject.plain[nodes]
    spotted = spot_errors(mean, labels, -subject.trust[nodes], plain=plain)
    cards = [("Right answers", f"{100 * accuracy(mean, labels):.1f} %", f"of {subject.scored_as}")]
    if spotted.auroc is not None:
        rival = spotted.confidence_auroc
        beside = f"; plain softmax: {rival:.3f}" if plain is not None and rival else ""
        hint = f"chance that a wrong answer is trusted less than a right one (AUROC){beside}"
        cards.append(("Errors found", f"{spotted.auroc:.3f}", hint))
    return cards


def _valued(subject: PageSubject) -> list[Card]:
    assert subject.truth is not None
    assert subject.low is not None
    assert subject.high is not None
    nodes = subject.scored
    truth = subject.truth[nodes]
    error = (subject.mean[nodes] - truth).square().mean().sqrt()
    inside = (truth >= subject.low[nodes]) & (truth <= subject.high[nodes])
    return [
        ("Root mean square error", f"{error:.3g}", f"of {subject.scored_as}"),
        (
            f"Within {100 * LEVEL:.0f} % intervals",
            f"{100 * float(inside.double().mean()):.1f} %",
            "of the true values",
        ),
    ]


def _spread(subject: PageSubject) -> Card:
    what = "the answer's probability" if subject.classification else "an answer"
    std = subject.variance.mean().sqrt()
    return ("Typical error bar", f"± {std:.2g}", f"of {what}, root of the mean variance")


#: Points of a curve; more cannot be told apart on a screen.
POINTS = 300


def charts(subject: PageSubject, levels: Levels) -> dict[str, Any]:
    """One entry for each chart; None where there is nothing to draw.

    Args:
        subject: of the page.
        levels: what was measured at each level of noise.
    """
    judged = subject.wrong is not None and bool(subject.scored.any())
    return {
        "reliability": _reliability(subject) if judged else None,
        "risk": _risk(subject) if judged else None,
        "noise": _noise(levels, subject.parts) if levels else None,
        "intervals": _intervals(subject),
        "histogram": _histogram(subject, judged=judged),
    }


#: Outputs that get a chart of intervals each.
OUTPUTS = 4
#: Intervals that can be told apart on a screen.
SHOWN = 120


def _intervals(subject: PageSubject) -> list[dict[str, Any]] | None:
    """For each output its values from low to high with their intervals, and the truth if known."""
    if subject.low is None or subject.high is None:
        return None
    low, high = subject.low, subject.high
    known = bool(subject.scored.any())
    nodes = subject.scored.nonzero()[:, 0] if known else torch.arange(len(subject.mean))
    found = []
    for output in range(min(subject.mean.size(1), OUTPUTS)):
        order = nodes[subject.mean[nodes, output].argsort(stable=True)]
        places = torch.linspace(0, len(order) - 1, min(SHOWN, len(order))).round().long()
        chosen = order[places]
        truth = None if not known or subject.truth is None else subject.truth[chosen, output]
        found.append(
            {
                "node": chosen.tolist(),
                "mean": rounded(subject.mean[chosen, output]),
                "low": rounded(low[chosen, output]),
                "high": rounded(high[chosen, output]),
                "truth": None if truth is None else rounded(truth),
                "of": len(order),
            }
        )
    return found


def _reliability(subject: PageSubject) -> dict[str, Any]:
    confidence, right = _confidence(subject), ~_wrong(subject)
    found = Reliability.of(confidence, right)
    curves = ("predicted", "observed", "low", "high", "start")
    return {
        **{name: rounded(getattr(found, name)) for name in curves},
        "count": found.count.tolist(),
        "width": found.width,
    }


def _risk(subject: PageSubject) -> dict[str, Any]:
    found = {"ours": _curve(-_confidence(subject), _wrong(subject))}
    if subject.plain is not None and subject.truth is not None:
        confidence, best = subject.plain[subject.scored].max(1)
        found["plain"] = _curve(-confidence, best != subject.truth[subject.scored])
    return found


def _curve(uncertainty: Tensor, wrong: Tensor) -> dict[str, Any]:  # [nodes], [nodes]
    found = risk_coverage(uncertainty, wrong)
    count = len(found.risk)
    shown = torch.linspace(0, count - 1, min(POINTS, count)).round().long()
    return {
        "coverage": rounded(found.coverage[shown]),
        "risk": rounded(found.risk[shown]),
        "area": found.area,
    }


def _noise(levels: Levels, parts: Sequence[str]) -> dict[str, Any]:
    ordered = sorted(levels, key=lambda level: level.noise)
    return {
        "level": [level.noise for level in ordered],
        "parts": {
            part: [level.scores.by_source.get(part, 0.0) for level in ordered] for part in parts
        },
        "accuracy": [level.scores.accuracy for level in ordered],
    }


def _histogram(subject: PageSubject, *, judged: bool) -> dict[str, Any] | None:
    nodes = subject.scored if judged else torch.ones_like(subject.scored)
    wrong = _wrong(subject) if judged else torch.zeros(len(subject.mean), dtype=torch.bool)
    variance = subject.variance[nodes]
    found = VarianceBins.of(variance, wrong)
    if found is None or float(variance.max()) < ALIKE * float(variance.min()):
        return None
    counts = {"right": found.right.tolist(), "wrong": found.wrong.tolist() if judged else None}
    return {"edges": rounded(found.edges), **counts}


def _confidence(subject: PageSubject) -> Tensor:  # [scored nodes]
    return subject.trust[subject.scored].clamp(0, 1)


def _wrong(subject: PageSubject) -> Tensor:  # [scored nodes] bool
    assert subject.wrong is not None
    return subject.wrong[subject.scored]


#: Intervals of a histogram.
BINS = 40
#: How far below the largest variance the first interval starts; what is below falls into it.
DECADES = 6
#: Variances whose largest is less than so many times the smallest have no histogram to look at.
ALIKE = 1.01


@dataclass(frozen=True, eq=False)
class VarianceBins:
    """How many nodes there are in each interval of variance.

    Args:
        edges: where the intervals begin, and where the last one ends, ``[intervals + 1]``.
        right: nodes classified right, or all nodes where the truth is unknown, ``[intervals]``.
        wrong: nodes classified wrongly, ``[intervals]``.
    """

    edges: Tensor
    right: Tensor
    wrong: Tensor

    @classmethod
    def of(cls, var: Tensor, wrong: Tensor, *, bins: int = BINS) -> VarianceBins | None:
        """Count; None where no variance is above 0.

        Args:
            var: variances, ``[nodes]``.
            wrong: which nodes are classified wrongly, ``[nodes]`` bool.
            bins: number of intervals.

        Example:
            >>> var, wrong = torch.tensor([1.0, 10.0]), torch.tensor([True, False])
            >>> found = VarianceBins.of(var, wrong, bins=2)
            >>> found.right.tolist(), found.wrong.tolist()
            ([0, 1], [1, 0])
        """
        var = var.detach().cpu().double()
        above = var[var > 0]
        if len(above) == 0:
            return None
        high = float(above.max()) * (1 + 1e-9)
        low = max(float(above.min()), high / 10**DECADES)
        low = min(low, high / 1.01)  # equal variances still need an interval to be in
        edges = torch.logspace(math.log10(low), math.log10(high), bins + 1, dtype=torch.float64)
        place = (torch.bucketize(var, edges, right=True) - 1).clamp(0, bins - 1)
        counts = (torch.bincount(place[kind], minlength=bins) for kind in (~wrong, wrong))
        return cls(edges, *counts)
