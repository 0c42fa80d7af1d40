"""Whether draws agree with a closed form: number by number, in the sum, and in the answer."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from varigraph.prediction.prediction import Prediction
from varigraph.prediction.sampled.estimates import Estimate
from varigraph.prediction.sampled.method import Sample

#: A range of ratios.
Bounds = tuple[float, float]
#: Variances above this share of their mean move, and are compared one by one.
MOVES = 1e-6
#: Relative standard error of one drawn variance above which single ones are not looked at: of
#: links that are hardly ever gone most draws know nothing.
COARSE = 0.3
#: Standard error up to which draws can tell: a figure must be inside of its bounds by as much.
FINE = 0.04
#: Parts of the draws that are left out in turn.
PARTS = 10
#: Numbers that are looked at, batches of draws included.
MOST_NUMBERS = 2**22


@dataclass(frozen=True)
class Wanted:
    """How near a closed form must be to draws.

    Args:
        draws: how many are taken at first, and then, while they leave it open.
        median: ratios of the variances of single logits that pass, in the median.
        total: ratios of sums that pass.
        answer: ratios of the variances of the answer itself that pass, in the sum.
        rare: what is drawn may happen so seldom that draws know nothing of it.
        enough: draws that an answer takes at least which the closed form is too far from.
    """

    draws: tuple[int, ...]
    median: Bounds
    total: Bounds
    answer: Bounds = (0.8, 1.25)
    rare: bool = False
    enough: int = 0


NOISE = Wanted((32, 100, 500), median=(0.95, 1.05), total=(0.92, 1.08))
COINS = Wanted((100, 500), median=(0.9, 1.1), total=(0.8, 1.25), rare=True)
#: Right logits are not enough: masks that multiply, or a few alone that decide about a node, give
#: class probabilities another distribution than closed forms think.
MASKS = Wanted((32, 100), median=(0.95, 1.05), total=(0.92, 1.08), answer=(0.85, 1.18), enough=200)


@dataclass(frozen=True)
class Figure:
    """A ratio of variances, closed form over draws.

    Args:
        value: the ratio.
        error: its relative standard error, by leaving out one part of the draws after the other.
        bounds: where it should be.
    """

    value: float
    error: float
    bounds: Bounds

    @classmethod
    def of(cls, found: Callable[[Tensor], float], truth: Estimate, bounds: Bounds) -> Figure:
        """The jackknife's error, which leaves out large parts: a median moves by steps."""
        whole = found(truth.value)
        others = [math.log(found(without) / whole) for without in _without_each_part(truth)]
        if (count := len(others)) < 2:
            return cls(whole, math.inf, bounds)
        middle = sum(others) / count
        spread = (count - 1) / count * sum((other - middle) ** 2 for other in others)
        return cls(whole, math.sqrt(spread), bounds)

    @property
    def beyond(self) -> float:
        """Share by which it is outside of its bounds; negative inside."""
        return max(math.log(self.bounds[0] / self.value), math.log(self.value / self.bounds[1]))

    @property
    def settled(self) -> bool:
        """Whether more draws would hardly decide otherwise."""
        return not -2 * self.error <= self.beyond <= 3 * self.error

    @property
    def passes(self) -> bool:
        """Whether it is inside for all that draws can tell, or they are too few to tell."""
        return self.beyond <= (-self.error if self.error <= FINE else 2 * self.error)


@dataclass(frozen=True)
class Agreement:
    """A closed form beside draws.

    Args:
        figures: what was compared.
        draws: by how many draws.
    """

    figures: tuple[Figure, ...]
    draws: int

    @classmethod
    def of(cls, closed: Prediction, drawn: Sample, wanted: Wanted) -> Agreement:
        """Logits one by one where draws can tell, all of them, and the answer in the sum."""
        rows = _some_rows(closed.logits.var, drawn.logits.batches)
        said, true = closed.logits.var[rows].double(), drawn.logits.estimates(rows).total
        if wanted.rare and not bool(true.value.any()):
            return cls((), drawn.runs)
        figures = [Figure.of(_of_sums(said), true, wanted.total)]
        if (coarseness := _coarseness(true)) <= COARSE:
            figures.append(Figure.of(_of_medians(said, coarseness), true, wanted.median))
        answer = drawn.answer.estimates(rows).total
        figures.append(Figure.of(_of_sums(closed.total[rows].double()), answer, wanted.answer))
        return cls(tuple(figures), drawn.runs)

    @property
    def settled(self) -> bool:
        """Whether more draws would hardly change it."""
        wrong = [figure for figure in self.figures if not figure.passes]
        return all(figure.settled for figure in wrong or self.figures)

    @property
    def passes(self) -> bool:
        """Whether all figures do."""
        return all(figure.passes for figure in self.figures)

    def __str__(self) -> str:
        if not self.figures:
            return f"in {self.draws} draws nothing happened"
        farthest = max(self.figures, key=lambda figure: abs(math.log(figure.value)))
        verb = "agree, with" if self.passes else "have"
        return f"{self.draws} draws {verb} {1 / farthest.value:.3g} times its variance"


def agreement(closed: Prediction, draw: Callable[[int], Sample], wanted: Wanted) -> Agreement:
    """What draws say of a closed form, with more and more of them while they leave it open.

    Args:
        closed: the answer in closed form.
        draw: so many runs of the network.
        wanted: how near they must be.
    """
    found = Agreement((), 0)
    for draws in wanted.draws:
        found = Agreement.of(closed, draw(draws), wanted)
        if found.settled:
            break
    return found


def _without_each_part(truth: Estimate) -> Iterator[Tensor]:  # [nodes, classes] each
    """The variance from all batches of draws but those of one part, in turn."""
    weighted = truth.weights * truth.by_batch
    total = weighted.sum(0)
    parts = zip(weighted.chunk(PARTS), truth.weights.chunk(PARTS), strict=True)
    for some, weights in parts:
        yield truth.value - total + (total - some.sum(0)) / (1 - weights.sum())


def _some_rows(like: Tensor, batches: int) -> slice:  # [nodes, classes]
    """All rows, or as many as are compared in little memory, evenly."""
    return slice(0, None, 1 + like.numel() * batches // MOST_NUMBERS)


def _of_sums(said: Tensor) -> Callable[[Tensor], float]:
    return lambda true: _ratio(said.sum(), true.sum())


def _ratio(said: Tensor, true: Tensor) -> float:
    """Within what logarithms can be taken of."""
    least = torch.finfo(torch.float32).tiny
    return float((said.double().clamp_min(least) / true.double().clamp_min(least)).clamp_min(least))


def _of_medians(said: Tensor, coarseness: float) -> Callable[[Tensor], float]:
    r"""The median of the ratios, as it would be if draws were exact.

    The variance of n Gaussian draws has the median :math:`(1 - 2 / 9n)^3` of its mean, and a
    relative standard error :math:`\tau = \sqrt{2 / n}`.
    """
    too_small = (1 - coarseness**2 / 9) ** 3

    def ratio(true: Tensor) -> float:
        moving = _moving(true)
        return too_small * _ratio((said[moving] / true[moving]).median(), true.new_ones(()))

    return ratio


def _coarseness(true: Estimate) -> float:
    """Relative standard error of a typical variance; infinite where none moves."""
    moving = _moving(true.value)
    relative = (true.error / true.value)[moving]
    known = relative[relative.isfinite()]
    return float(known.median()) if len(known) > 0 else math.inf


def _moving(var: Tensor) -> Tensor:
    return var > MOVES * var.mean()
