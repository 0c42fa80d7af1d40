"""Which draw of which source goes into which run."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations

from varigraph.prediction.question import Source

#: Runs of a group, and the level (first or second draw) of the first, second and third source.
LEVELS = ((0, 0, 0), (0, 1, 1), (1, 0, 1), (1, 1, 0))


@dataclass(frozen=True)
class Draw:
    """The number of each source's draw in one run; None holds a source at its mean."""

    features: int | None = None
    links: int | None = None
    weights: int | None = None


@dataclass(frozen=True)
class Design:
    r"""Runs in groups that tell the sources apart.

    One source: every run has a draw of its own. Two or three: groups of four runs on two draws of
    each source, such that any two runs of a group share the draw of at most one source,

    .. math::
        \mathrm{Cov}(y, y') = V[E[y \mid s]]

    for runs that share source s and nothing else. With two sources a group is all four
    combinations; with three it is the half of the eight in which every two runs share one source.
    Every run serves the mean and the total as well: blame costs no run of its own.

    Args:
        sources: what is drawn, those that act first in the network first.
        samples: number of runs asked for; rounded up to whole groups, of which there are two.
    """

    sources: tuple[Source, ...]
    samples: int

    @property
    def group(self) -> int:
        """Runs in a group."""
        return 1 if len(self.sources) < 2 else len(LEVELS)

    @property
    def runs(self) -> int:
        """Number of runs."""
        return max(2, -(-self.samples // self.group)) * self.group

    @property
    def pairs(self) -> dict[Source, tuple[tuple[int, int], ...]]:
        """Runs of a group that share one source and nothing else."""
        if self.group == 1:
            return {}
        return {
            source: tuple(
                (one, two)
                for one, two in combinations(range(self.group), 2)
                if LEVELS[one][place] == LEVELS[two][place]
            )
            for place, source in enumerate(self.sources)
        }

    def draw(self, run: int) -> Draw:
        """The draws of a run."""
        if self.group == 1:
            return Draw(**dict.fromkeys(self.sources, run))
        group, member = divmod(run, self.group)
        return Draw(**{s: 2 * group + LEVELS[member][k] for k, s in enumerate(self.sources)})
