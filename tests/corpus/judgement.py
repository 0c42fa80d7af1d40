"""What the library answers for a network, and whether that is right."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

import varigraph as vg
from corpus.asking import asked
from corpus.draws import GROUPS, TO_BE_SURE, Truth, truth
from corpus.laws import is_own_answer, unchanged
from corpus.registry import Network
from varigraph.errors import VarigraphError

#: Ratios of variances that a closed form may have: the median, and that of the sums.
MEDIANS = {"features": (0.95, 1.05), "links": (0.9, 1.1)}
SUMS = {"features": (0.9, 1.1), "links": (0.8, 1.25)}


@dataclass(frozen=True)
class Verdict:
    """How the library answered about one source.

    Args:
        state: ``closed``, ``differentiated``, ``sampled``, ``refused``, ``crashed``, or ``off``
            if an answer came that is wrong.
        said: the method of the answer, or the error.
        median: of the ratio of variances to brute force, over rows and outputs.
        total: ratio of the sums of variances.
        error: standard error of what the state is decided by.
        near: whether it is so near to a bound of closed forms that other draws might decide
            otherwise: within 2 standard errors.
    """

    state: str
    said: str
    median: float = math.nan
    total: float = math.nan
    error: float = math.nan
    near: bool = False


def judged(network: Network, source: str, **options: Any) -> Verdict:
    """The answer against brute force.

    Args:
        network: the network.
        source: what is uncertain.
        options: of ``vg.predict``, where others than a user's are meant.
    """
    model = network.trained()  # what goes wrong there is our own mistake
    try:
        with unchanged(model):
            answer = asked(network, source, model=model, **options)
    except AssertionError:
        raise
    except VarigraphError as error:
        return Verdict("refused", str(error).splitlines()[0])
    except Exception as error:
        return Verdict("crashed", f"{type(error).__name__}: {error}".splitlines()[0])
    verdict = compared(answer, truth(network, source), source)
    if verdict.state == "off" and verdict.near:
        verdict = compared(answer, truth(network, source, times=TO_BE_SURE), source)
    if verdict.state != "off" and not is_own_answer(network, source, answer.method):
        return replace(verdict, state="off", said=f"not the network's own answer; {verdict.said}")
    return verdict


def compared(answer: vg.Prediction, true: Truth, source: str) -> Verdict:
    """A closed form is held to bounds, a sampled sum to 3 standard errors of both sides."""
    said, var = answer.method, answer.logits.var.double()
    state = state_of(said)
    median, total = _median(var, true.var), _total(var, true.var)
    if not bool(true.var.any()):
        return Verdict("off" if bool(var.any()) else state, said)
    if state == "sampled":
        error = _spread(true, lambda real: _total(var, real)) * math.sqrt(
            1 + len(true.logits) / answer.samples
        )
        right = abs(total - 1) <= 3 * error
        return Verdict(state if right else "off", said, median, total, error)
    error = _spread(true, lambda real: _median(var, real))
    by_median = _past(median, MEDIANS[source]) / error
    by_total = _past(total, SUMS[source]) / _spread(true, lambda real: _total(var, real))
    farthest = max(by_median, by_total)
    return Verdict(
        state if farthest <= 0 else "off", said, median, total, error, near=abs(farthest) < 2
    )


def _past(ratio: float, bounds: tuple[float, float]) -> float:
    """How far beyond the bounds it is; negative inside of them."""
    return max(bounds[0] - ratio, ratio - bounds[1])


def state_of(method: str) -> str:
    """One word for how an answer came about."""
    if method.startswith("sampled"):
        return "sampled"
    return "differentiated" if "differentiat" in method else "closed"


def _median(var: Tensor, real: Tensor) -> float:
    """Over what moves at all; a number that does not move must not be said to."""
    moving = real > 1e-6 * real.mean()
    return float((var / real)[moving].median())


def _total(var: Tensor, real: Tensor) -> float:
    """Ratio of the sums over all rows and outputs."""
    return float(var.sum() / real.sum())


def _spread(true: Truth, figure: Callable[[Tensor], float]) -> float:
    """Standard error of a figure, by leaving out one group of draws after the other."""
    figures = torch.tensor([figure(real) for real in true.without_each_group()])
    return float(((GROUPS - 1) * figures.var(correction=0)).sqrt())
