"""Some links of a file, as the file writes them, and their probabilities."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from reprlib import repr as shortened
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from varigraph.errors import FileError

Floats: TypeAlias = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class LinkBlock:
    """Consecutive links of a file; all sequences but ``nodes`` have one entry per link.

    Args:
        lines: number of the line that states it, counted from 1.
        sources: name of one end.
        targets: name of the other end.
        scores: how sure it is, in the words of the file; None where every link is certain.
        nodes: names that the file mentions before these links, for files that list them.
        certain: the score of a certain link in this kind of file.
    """

    lines: Sequence[int]
    sources: Sequence[str]
    targets: Sequence[str]
    scores: Sequence[str] | None
    nodes: Sequence[str] = ()
    certain: float = 1.0

    def probabilities(self, path: Path, scale: float | None) -> Floats:  # [links]
        """Scores divided by ``scale``, else by that of a certain link, known to lie in [0, 1].

        Raises:
            FileError: naming the first line whose score is no such number.
        """
        if self.scores is None:
            return np.ones(len(self.lines))
        prob = _numbers(path, self.lines, self.scores) / (self.certain if scale is None else scale)
        bad = ~((prob >= 0) & (prob <= 1))
        if bad.any():
            place = int(bad.argmax())
            raise FileError(
                path,
                f"the score {shortened(self.scores[place])} makes a probability of "
                f"{prob[place]:.6g}, which is not between 0 and 1",
                "correct or remove the line; if scores go up to another number than "
                f"{self.certain if scale is None else scale:g}, give that as scale=",
                line=self.lines[place],
            )
        return prob


def _numbers(path: Path, lines: Sequence[int], scores: Sequence[str]) -> Floats:
    try:
        if "_" in "".join(scores):
            raise ValueError("Python reads 0_5 as a number, but no file means one by it")
        return np.array(scores, dtype=np.float64)
    except ValueError as error:
        place = next(place for place, text in enumerate(scores) if not is_number(text))
        raise FileError(
            path,
            f"the score {shortened(scores[place])} is not a number",
            "correct or remove the line; if the score is in another column, say in which "
            'by its name or number: score="confidence" or score=3, counted from 0',
            line=lines[place],
        ) from error


def is_number(text: str) -> bool:
    """Whether a file means a number by this, NaN included."""
    try:
        float(text)
    except ValueError:
        return False
    return "_" not in text
