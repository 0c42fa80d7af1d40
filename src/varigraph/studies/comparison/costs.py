"""How long pieces take: a first guess, corrected by what has been seen."""

from __future__ import annotations

from collections.abc import Iterable

from varigraph.studies.comparison.pieces import Piece

#: Seconds on one core, measured once; only their ratios count as soon as a piece is finished.
SECONDS: dict[str, dict[str, float]] = {
    "cora": {
        **{"links": 29, "network": 33, "ensemble": 150, "noise-aware": 155},
        **{"drop-connect": 30, "bgcn-map": 6, "bgcn-block": 4},
    },
    "computers": {
        **{"links": 300, "network": 110, "ensemble": 550, "noise-aware": 310},
        **{"drop-connect": 85, "bgcn-map": 150, "bgcn-block": 140, "plain": 10},
    },
    "pubmed": {
        **{"links": 250, "network": 40, "ensemble": 220, "noise-aware": 390},
        **{"drop-connect": 60, "bgcn-map": 60, "bgcn-block": 30, "plain": 5},
    },
}
#: Of a kind that is not in the table.
TYPICAL = {"cora": 8.0, "computers": 45.0, "pubmed": 25.0}


def cost(piece: Piece) -> float:
    """Seconds that a piece should take.

    Args:
        piece: of any kind.
    """
    return SECONDS.get(piece.dataset, {}).get(piece.kind, TYPICAL.get(piece.dataset, 10.0))


class Clock:
    """Seconds that are left, from the pieces that were made so far.

    Args:
        todo: all that is to be made.
        jobs: processes at work.
    """

    def __init__(self, todo: Iterable[Piece], *, jobs: int) -> None:
        self.left = {piece.name: cost(piece) for piece in todo}
        self.total, self.jobs = len(self.left), jobs
        self.expected = self.seen = 0.0

    def made(self, piece: Piece, seconds: float) -> None:
        """Take note of a piece.

        Args:
            piece: that was made.
            seconds: it took.
        """
        self.expected += self.left.pop(piece.name)
        self.seen += seconds

    @property
    def done(self) -> int:
        """How many pieces are made."""
        return self.total - len(self.left)

    @property
    def seconds_left(self) -> float:
        """Expected seconds of what is left, times what the expectations were off so far."""
        pace = self.seen / self.expected if self.expected else 1.0
        return pace * sum(self.left.values()) / min(self.jobs, max(len(self.left), 1))
