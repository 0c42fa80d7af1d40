"""What a page says first: whether trust and intervals hold, and what would help against doubt."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from scipy.stats import binom
from torch import Tensor

from varigraph.metrics.calibration import Reliability
from varigraph.prediction.least_trusted import OWN_DOUBT, REMEDIES
from varigraph.prediction.prediction import Prediction
from varigraph.prediction.sources.features import FEATURES
from varigraph.prediction.sources.links import LINKS
from varigraph.prediction.sources.source import INTERACTIONS, SOURCES
from varigraph.prediction.sources.weights import WEIGHTS
from varigraph.reporting.page.document import rounded
from varigraph.reporting.page.subject import LEVEL, PageSubject

#: Of pages whose intervals hold, one in forty gets an alarm.
SURE = 0.05
#: Draws of answers that are right as often as their trust says, which tell what chance does.
DRAWS = 400
#: Gap below which nobody would act, however many nodes have shown it.
SMALL = 0.02
#: Share of the answers to refuse.
REFUSED = 0.1
#: Standard errors (McNemar's) by which one way to refuse has to be better to be called so.
TELLING = 2.0
PUBLISHED = "diagonal"
CALIBRATE = "vg.calibrate(pred, graph.y, nodes=graph.val_mask).apply(pred)"


class Verdict(NamedTuple):
    """A sentence or two for the reader.

    Args:
        tone: ``good``, ``alarm`` or ``note``.
        title: the verdict itself.
        text: what it rests on.
        advice: what to do; empty where there is nothing to do.
    """

    tone: str
    title: str
    text: str
    advice: str = ""


def verdicts(subject: PageSubject, prediction: Prediction) -> list[Verdict]:
    """What a reader must know before reading on, alarms first.

    Args:
        subject: of the page.
        prediction: that it is about.
    """
    found = [_method(prediction), _truth_told(subject, prediction), _refusal(subject)]
    told = [verdict for verdict in found if verdict is not None]
    return sorted(told, key=lambda verdict: verdict.tone != "alarm")


def _method(prediction: Prediction) -> Verdict | None:
    if not prediction.method.startswith(PUBLISHED):
        return None
    return Verdict(
        "alarm",
        "These error bars are too small.",
        "The published method (diagonal) takes all numbers in the network as independent. What it "
        "says is due to the data can be a thousandth of the true variance.",
        'Predict with method="first-order", or leave it to method="auto".',
    )


def _truth_told(subject: PageSubject, prediction: Prediction) -> Verdict:
    known = subject.truth is not None and bool(subject.scored.any())
    if known and subject.classification:
        return _trust(subject, calibrated=_calibrated(prediction))
    if known and subject.task == "regression":
        return _intervals(subject, calibrated=_calibrated(prediction))
    where = "graph.edge_label" if subject.pairs is not None else "graph.y"
    unknown = "-1" if subject.task != "regression" else "NaN"
    if subject.task == "multilabel":
        return Verdict("note", "Labels are not compared with the truth on this page.", "")
    return Verdict(
        "note",
        "Nobody has checked whether these error bars hold.",
        "The page knows no true answers.",
        f"Give the truth where it is known, {unknown} elsewhere, in {where}; then the page says "
        "how often the answers are right.",
    )


def _calibrated(prediction: Prediction) -> bool:
    return prediction.calibrator is not None or prediction.chance is not None


def _trust(subject: PageSubject, *, calibrated: bool) -> Verdict:
    assert subject.wrong is not None
    trust, right = subject.trust[subject.scored].clamp(0, 1), ~subject.wrong[subject.scored]
    gap, limit = calibration_gap(trust, right), chance_gap(trust)
    mean, share = float(trust.mean()), float(right.double().mean())
    rests_on = (
        f"On average an answer is trusted with {_percent(mean)} and {_percent(share)} are right, "
        f"of {subject.scored_as}. Over groups of equal trust the gap is {_percent(gap)} on "
        f"average; chance alone makes it up to {_percent(limit)}."
    )
    if gap <= max(limit, SMALL):
        return Verdict("good", "Trust holds: answers are right as often as it says.", rests_on)
    title = "Trust does not hold: some groups are right more, others less often than it says."
    if abs(mean - share) > gap / 2:
        side = "too sure" if mean > share else "too cautious"
        title = f"Trust does not hold: the network is {side} of its answers."
    return Verdict("alarm", title, rests_on, _advice(calibrated=calibrated))


def _intervals(subject: PageSubject, *, calibrated: bool) -> Verdict:
    assert subject.truth is not None
    assert subject.low is not None
    assert subject.high is not None
    nodes = subject.scored
    truth = subject.truth[nodes]
    inside = (truth >= subject.low[nodes]) & (truth <= subject.high[nodes])
    count, share = inside.numel(), float(inside.double().mean())
    low, high = (float(end) for end in binom.interval(1 - SURE, count, LEVEL))
    rests_on = (
        f"They are to hold {_percent(LEVEL)} of the true values and hold {_percent(share)} of "
        f"{subject.scored_as}; chance alone makes it {_percent(low / count)} to "
        f"{_percent(high / count)}."
    )
    if share < low / count:
        why = (
            "What is uncertain in the inputs explains only a part of the errors; the rest is the "
            "network's own."
        )
        title = "Alarm: the intervals do not hold."
        advice = _advice(calibrated=calibrated)
        return Verdict("alarm", title, f"{rests_on} {why}", advice)
    if share > high / count:
        title = "The intervals hold, but are wider than they need to be."
        return Verdict("note", title, rests_on, _advice(calibrated=calibrated))
    return Verdict("good", "The intervals hold.", rests_on)


def _advice(*, calibrated: bool) -> str:
    if calibrated:
        return "It was calibrated on nodes that differ from these: calibrate on nodes more alike."
    return (
        f"Calibrate on nodes that were held out of training: {CALIBRATE}, or varigraph calibrate "
        "on the command line."
    )


def calibration_gap(trust: Tensor, right: Tensor) -> float:  # [nodes], [nodes] bool
    """The expected calibration error: mean distance of trust and share of right answers.

    Args:
        trust: 0 to 1.
        right: which answers are.
    """
    found = Reliability.of(trust, right)
    weight = found.count.double() / found.count.sum()
    return float((weight * (found.predicted - found.observed).abs().double()).sum())


def chance_gap(trust: Tensor) -> float:  # [nodes]
    """The gap that chance alone exceeds in one of twenty, if trust were perfect.

    Args:
        trust: 0 to 1.
    """
    draw = torch.Generator().manual_seed(0)
    gaps = [
        calibration_gap(trust, torch.rand(trust.shape, generator=draw, dtype=trust.dtype) < trust)
        for _ in range(DRAWS)
    ]
    return float(torch.tensor(gaps).quantile(0.95))


def _refusal(subject: PageSubject) -> Verdict | None:
    """What refusing the least trusted answers does, beside the network's own confidence."""
    if subject.wrong is None or subject.plain is None or not bool(subject.scored.any()):
        return None
    assert subject.truth is not None
    nodes = subject.scored
    ours = _kept_right(subject.trust[nodes], ~subject.wrong[nodes])
    confidence, best = subject.plain[nodes].max(1)
    plain = _kept_right(confidence, best == subject.truth[nodes])
    kept = len(ours) - round(REFUSED * len(ours))
    before, ours_left, plain_left = (
        _percent(float(share))
        for share in (
            (~subject.wrong[nodes]).double().mean(),
            ours.sum() / kept,
            plain.sum() / kept,
        )
    )
    text = (
        f"Without the least trusted {_percent(REFUSED)} of the answers, {ours_left} are right "
        f"instead of {before}. Without those that the plain network is least confident about, it "
        f"is {plain_left}."
    )
    better, only_one = int(ours.sum() - plain.sum()), int((ours != plain).sum())
    if abs(better) <= TELLING * only_one**0.5:
        title = "Refusing by trust or by plain confidence: no clear difference."
        return Verdict("note", title, text)
    if better > 0:
        return Verdict("note", "Refusing what is trusted least pays.", text)
    return Verdict("note", "Here the plain network's confidence finds errors better.", text)


def _kept_right(trust: Tensor, right: Tensor) -> Tensor:  # [nodes], [nodes] bool -> [nodes] bool
    """Which answers are right and not among the least trusted."""
    kept = right.clone()
    kept[trust.argsort(stable=True)[: round(REFUSED * len(trust))]] = False
    return kept


def _percent(share: float) -> str:
    text = f"{100 * share:.1f}"
    return f"{text.removesuffix('.0')} %"


#: What would help against a cause where all answers count; elsewhere what helps one of them.
WHOLE = {
    OWN_DOUBT: "train on more examples, or train a better network",
    WEIGHTS: "train on more examples",
    FEATURES: "measure features again, first those of the nodes that matter most",
    LINKS: "verify links, first those that matter most",
    INTERACTIONS: "whatever reduces one of the other causes helps here too",
}
#: What would help against a cause of the doubt about a pair of nodes.
PAIRS = {
    OWN_DOUBT: "train on more pairs like it",
    WEIGHTS: "train on more pairs like it",
    FEATURES: "measure the features of its ends, or of their neighbours, again",
    LINKS: "verify the doubtful links near its ends",
}
#: Share of the doubt below which a cause is not worth a line.
WORTH = 0.01


def causes_of_doubt(subject: PageSubject) -> tuple[list[str], Tensor]:  # [causes, nodes]
    """What the doubt about each answer is due to, and how much of it; shares add up to 1.

    The sources, and for probabilities what the network leaves open by itself, see
    :func:`varigraph.trust.confidence.doubt`.

    Args:
        subject: of the page.
    """
    found = subject.doubt
    parts = torch.stack([subject.shown(part) for part in subject.by_source]).clamp_min(0)
    names = list(subject.parts)
    if subject.task != "regression":
        names.append(OWN_DOUBT)
        parts = torch.cat([parts, (found.whole - found.uncertain).clamp_min(0)[None]])
    total = parts.sum(0)
    return names, parts / total.where(total > 0, 1)


def remedy(cause: str) -> str:
    """What would help against a cause.

    Args:
        cause: a source, or one that is none.
    """
    return SOURCES[cause].remedy if cause in SOURCES else REMEDIES[cause]


def actions(subject: PageSubject) -> dict[str, Any]:
    """For every node its main cause, and for the whole graph what would help most.

    Args:
        subject: of the page.
    """
    names, shares = causes_of_doubt(subject)
    best, main = shares.max(0)
    helping = {} if subject.pairs is None else PAIRS
    found = subject.doubt.whole
    weight = found / found.sum() if float(found.sum()) > 0 else torch.zeros_like(found)
    whole = (shares * weight).sum(1)
    order = [place for place in whole.argsort(descending=True).tolist() if whole[place] >= WORTH]
    return {
        "causes": names,
        "remedies": [helping.get(name) or remedy(name) for name in names],
        "main": torch.where(best > 0, main, -1).tolist(),
        "share": rounded(best, digits=3),
        "whole": [
            {
                "cause": place,
                "share": float(whole[place]),
                "remedy": WHOLE.get(names[place]) or remedy(names[place]),
            }
            for place in order
        ],
    }
