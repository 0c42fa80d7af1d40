"""Tosses of coins: each link fails in its share of the draws, and how many draws are enough."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby

import numpy as np
import torch
from torch import Tensor

from varigraph.kernels import INSTALLED
from varigraph.moments import LinkProbabilities
from varigraph.prediction.numbering import Words, drawn_at, numbering

#: The stream of the generator that coins have for themselves.
LINKS = 3
#: Draws in a round: a prime number, so that any two of them have nothing to do with each other.
ROUND = 101
#: Bits of a word that choose a coin's step, its start, and whether its share is rounded up.
STEP, START, FRACTION = 16, 24, 24

#: Rounds at least, and at most where runs go side by side.
FEWEST_ROUNDS, MOST_ROUNDS = 2, 7
#: Nine in ten variances should be within such a share of what more draws would say.
WITHIN, OF_ALL = 0.25, 0.9
#: Variances of an answer below this do not count.
SEEN = 1e-6
#: Numbers that are looked at.
MOST_NUMBERS = 2**20


@dataclass(frozen=True, eq=False)
class Round:
    r"""What coins show in 101 draws in a row.

    .. math::
        \text{draw } d \text{ shows the link where } (a d + b) \bmod 101 < \lfloor 101 p + u \rfloor

    with a step a, a start b and a fraction u of the coin's own. Each draw by itself shows the link
    with chance p. In a whole round it is there in its share of the draws, rounded up or down; and
    since 101 is a prime number, any two draws of the round are at any two places of the coin
    equally often, as they are in a random order.

    Args:
        step: a, ``[links]``.
        start: b, ``[links]``.
        shown: in how many draws the link is there, ``[links]``.
    """

    step: Tensor
    start: Tensor
    shown: Tensor

    @classmethod
    def of(cls, prob: Tensor, words: Tensor) -> Round:  # [links], [links] int64
        """The round that random words give, one for each of the chances."""
        steps = _bits(words, 0, STEP) * (ROUND - 1) >> STEP
        starts = _bits(words, STEP, START) * ROUND >> START
        fraction = _bits(words, STEP + START, FRACTION).double() / 2**FRACTION
        shown = (ROUND * prob.double() + fraction).floor()
        return cls(*(each.to(torch.int16) for each in (1 + steps, starts, shown)))

    def there(self, draws: Sequence[int]) -> Tensor:  # -> [draws, links] bool
        """Whether each link is there.

        Args:
            draws: counted from the first of the round.
        """
        number = torch.tensor(draws, dtype=torch.float32, device=self.step.device)[:, None]
        place = torch.addcmul(self.start.float(), self.step.float(), number)
        # Up to 101², in 32 bits, the quotient is wrong by less than what keeps it off a whole one.
        whole = (place * (1 / ROUND)).add_(0.1 / ROUND).floor_()
        return place.sub_(whole, alpha=ROUND) < self.shown


class TossedLinks:
    """Links about each of which a coin decides."""

    _links: LinkProbabilities
    _round: tuple[tuple[int, int], Round] | None = None

    def draw(self, sample: int, *, seed: int) -> Tensor:  # -> [edges]
        """What the coins show for each listed link: 1 if it is there, else 0.

        Args:
            sample: number of the draw.
            seed: key of the generator.
        """
        return self.draws([sample], seed=seed)[0]

    def draws(self, samples: Sequence[int], *, seed: int) -> Tensor:  # -> [samples, edges]
        """The same for many draws at once."""
        found = []
        for number, some in groupby(samples, lambda sample: sample // ROUND):
            if self._round is None or self._round[0] != (number, seed):
                self._round = (number, seed), self._tossed(number, seed)
            found.append(self._round[1].there([sample % ROUND for sample in some]))
        return torch.cat(found).to(self._links.listed[1])

    def _tossed(self, number: int, seed: int) -> Round:
        """A round, by its number and those of the coins."""
        part, prob = numbering(), self._links.listed[1]
        if part is not None and part.coins is not None:
            own = drawn_at(part.coins, 1, np.uint64, (0, number, LINKS), key=seed)[:, 0]
            return Round.of(prob, _as_signed(own).to(prob.device))
        of_link = self._links.coins
        words = words_of_coins(of_link.prob, number, seed=seed)
        return Round.of(prob, words[of_link.of_edge])


def words_of_coins(prob: Tensor, number: int, *, seed: int) -> Tensor:  # [coins] -> [coins] int64
    """A random word for each coin, on the device of its chance.

    Args:
        prob: chance of each.
        number: of the round.
        seed: key of the generator.
    """
    if prob.is_cuda and INSTALLED and len(prob):
        from varigraph.kernels.philox import philox_words  # noqa: PLC0415 - needs Triton

        counter = (0, 0, number, LINKS)
        drawn: Tensor = philox_words(len(prob), counter, key=seed, device=prob.device)
        return drawn
    words: Words = np.random.Philox(key=seed, counter=[0, 0, number, LINKS]).random_raw(len(prob))
    return _as_signed(words).to(prob.device)


def _as_signed(words: Words) -> Tensor:  # [n] -> [n] int64
    signed: Tensor = torch.from_numpy(words.view(np.int64))
    return signed


def _bits(words: Tensor, first: int, count: int) -> Tensor:  # [n] int64 each
    """Some bits of each word; shifts fill up with its sign, which is cut off."""
    found: Tensor = (words >> first) & (2**count - 1)
    return found


@dataclass(frozen=True)
class Enough:
    """When to stop drawing.

    Args:
        least: draws that are wanted in any case.
        most: draws that are taken run by run, if so many it must be.
    """

    least: int
    most: int

    def rounds(self, *, beside: bool) -> int:
        """How many rounds to be ready for.

        Args:
            beside: whether runs go side by side, and cost little.
        """
        most = max(self.most, MOST_ROUNDS * ROUND) if beside else self.most
        return math.ceil(max(most, self.least) / ROUND)

    def reached(self, by_round: Tensor) -> bool:  # [rounds, nodes, classes]
        """Whether the variances in each round are near enough to each other."""
        rounds = len(by_round)
        known = rounds >= FEWEST_ROUNDS and rounds * ROUND >= self.least
        return known and not_known(by_round) <= WITHIN


def not_known(by_round: Tensor) -> float:  # [rounds, nodes, classes]
    r"""Share by which nine in ten variances are off at most, as far as rounds tell.

    .. math::
        \frac{|V_r - \bar V|}{\bar V} \sqrt{\frac{R}{R - 1}} \cdot \frac{1}{\sqrt R}

    for R rounds of the variance V: how far one of them is from their mean, and so that mean from
    the truth.
    """
    each = by_round.flatten(1)
    each = each[:, :: 1 + each.numel() // MOST_NUMBERS]
    mean = each.mean(0)
    seen = mean > SEEN
    if not bool(seen.any()):
        return 0.0
    away = (each[:, seen] / mean[seen] - 1).abs() / math.sqrt(len(each) - 1)
    return float(torch.quantile(away.flatten(), OF_ALL))
