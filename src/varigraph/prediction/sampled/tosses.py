"""Tosses of coins: each link fails in its share of the draws, and not only on average."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from varigraph.moments import LinkProbabilities
from varigraph.prediction.numbering import Words, drawn_at, numbering

#: The stream of the generator that coins have for themselves.
LINKS = 3
#: Draws in a round: a prime number, so that any two of them have nothing to do with each other.
ROUND = 101
#: Bits of a word that choose a coin's step, its start, and whether its share is rounded up.
STEP, START, FRACTION = 16, 24, 24


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
    def of(cls, prob: Tensor, words: Words) -> Round:
        """The round that random words give, one for each of the chances."""
        steps, starts = words & np.uint64(2**STEP - 1), words >> np.uint64(STEP)
        starts = starts & np.uint64(2**START - 1)
        fraction = (words >> np.uint64(STEP + START)).astype(np.float64) / 2**FRACTION
        shown = np.floor(ROUND * prob.double().cpu().numpy() + fraction)
        found = (
            1 + (steps * np.uint64(ROUND - 1) >> np.uint64(STEP)),
            starts * np.uint64(ROUND) >> np.uint64(START),
            shown,
        )
        return cls(*(torch.from_numpy(each.astype(np.int16)).to(prob.device) for each in found))

    def there(self, draw: int) -> Tensor:  # -> [links] bool
        """Whether each link is there.

        Args:
            draw: counted from the first of the round.
        """
        return (self.step * draw + self.start).remainder_(ROUND) < self.shown


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
        number, draw = divmod(sample, ROUND)
        if self._round is None or self._round[0] != (number, seed):
            self._round = (number, seed), self._tossed(number, seed)
        return self._round[1].there(draw).to(self._links.listed[1])

    def _tossed(self, number: int, seed: int) -> Round:
        """A round, by its number and those of the coins."""
        part, prob = numbering(), self._links.listed[1]
        if part is not None and part.coins is not None:
            words = drawn_at(part.coins, 1, np.uint64, (0, number, LINKS), key=seed)[:, 0]
            return Round.of(prob, words)
        of_link = self._links.coins
        stream = np.random.Philox(key=seed, counter=[0, 0, number, LINKS])
        words = stream.random_raw(len(of_link.prob))
        return Round.of(prob, words[of_link.of_edge.cpu().numpy()])
