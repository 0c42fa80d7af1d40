"""Which draw of which source goes into which run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

#: The number of each source's draw in one run; what has none is held at its mean.
Draw = Mapping[str, int]


@dataclass(frozen=True)
class Design:
    r"""Runs in groups that tell the sources apart.

    One source: every run has a draw of its own. Several: groups of runs in which any two share the
    draw of at most one source,

    .. math::
        \mathrm{Cov}(y, y') = V[E[y \mid s]]

    for runs that share source s and nothing else. Each source pairs up the runs of a group in its
    own way, as the rounds of a tournament do: a group of four has three rounds and so serves up to
    three sources, one of six serves five. Every run serves the mean and the total as well: the
    division over sources costs no run of its own.

    Args:
        sources: what is drawn, those that act first in the network first.
        samples: number of runs asked for; rounded up to whole groups, of which there are two.
    """

    sources: tuple[str, ...]
    samples: int

    @property
    def group(self) -> int:
        """Runs in a group."""
        count = len(self.sources)
        return 1 if count < 2 else max(4, count + 1 + (count + 1) % 2)

    @property
    def runs(self) -> int:
        """Number of runs."""
        return max(2, -(-self.samples // self.group)) * self.group

    @cached_property
    def pairs(self) -> dict[str, tuple[tuple[int, int], ...]]:
        """Runs of a group that share one source and nothing else."""
        if self.group == 1:
            return {}
        return dict(zip(self.sources, rounds(self.group), strict=False))

    def draw(self, run: int) -> Draw:
        """The draws of a run."""
        if self.group == 1:
            return dict.fromkeys(self.sources, run)
        group, member = divmod(run, self.group)
        return {
            source: group * len(pairs) + next(k for k, pair in enumerate(pairs) if member in pair)
            for source, pairs in self.pairs.items()
        }


def rounds(players: int) -> list[tuple[tuple[int, int], ...]]:
    """The rounds of a tournament: every two players meet once, and in each round everybody plays.

    Example:
        >>> rounds(4)
        [((0, 1), (2, 3)), ((0, 2), (1, 3)), ((0, 3), (1, 2))]
    """
    last = players - 1
    found = []
    for number in reversed(range(last)):  # one stays in place, the others go around
        met = [(number, last)]
        for step in range(1, players // 2):
            one, two = (number + step) % last, (number - step) % last
            met.append((min(one, two), max(one, two)))
        found.append(tuple(sorted(met)))
    return found
