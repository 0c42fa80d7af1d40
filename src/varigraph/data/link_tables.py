"""The links of a file: as it writes them, in numbers, and each listed once."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import chain, count
from pathlib import Path
from reprlib import repr as shortened
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from varigraph.errors import FileError

Integers: TypeAlias = NDArray[np.int64]
Floats: TypeAlias = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class LinkTable:
    """Links between numbered nodes.

    Args:
        names: names of the nodes, in the order in which the file mentions them.
        ends: the two nodes of each link, ``[links, 2]``.
        probs: its probability, ``[links]``.
        scored: whether the file has scores; without, every probability is 1.
    """

    names: list[str]
    ends: Integers
    probs: Floats
    scored: bool = True

    @classmethod
    def of(cls, blocks: Iterable[LinkBlock], path: Path, scale: float | None) -> LinkTable:
        """One row for each line of a file.

        Raises:
            FileError: if a score cannot be a probability, or there is no line at all.
        """
        numbers: defaultdict[str, int] = defaultdict(count().__next__)  # new names count on
        ends, probs, scored = [], [], False
        for block in blocks:
            scored |= block.scores is not None
            probs.append(block.probabilities(path, scale))
            names = chain(block.nodes, *zip(block.sources, block.targets, strict=True))
            numbered = np.fromiter(map(numbers.__getitem__, names), dtype=np.int64)
            ends.append(numbered[len(block.nodes) :].reshape(-1, 2))
        if not sum(map(len, probs)):
            raise FileError(path, "there are no links in this file", "give one that has some")
        return cls(list(numbers), np.concatenate(ends), np.concatenate(probs), scored)

    def merged(self) -> tuple[LinkTable, Reading]:
        """Every undirected link once, in the order of the file, with its largest probability.

        Links of a node to itself and links of probability 0 are left out. The counts say what
        became of each row.
        """
        proper = self.ends[:, 0] != self.ends[:, 1]
        ends, probs = self.ends[proper], self.probs[proper]
        pair = ends.min(axis=1) * len(self.names) + ends.max(axis=1)
        order = pair.argsort(kind="stable")  # stable: the first line of each pair comes first
        start = np.flatnonzero(np.diff(pair[order], prepend=-1))
        largest = np.maximum.reduceat(probs[order], start)
        as_listed = order[start].argsort()  # back to the order of the file
        first, best = order[start][as_listed], largest[as_listed]
        possible = best.astype(np.float32) > 0
        size = np.diff(start, append=len(order))
        reading = Reading(
            lines=len(self.probs),
            links=int(possible.sum()),
            duplicates=len(order) - len(start),
            conflicts=int((probs[order] < largest.repeat(size)).sum()),
            self_links=int((~proper).sum()),
            impossible=int((~possible).sum()),
        )
        kept = LinkTable(self.names, ends[first][possible], best[possible], self.scored)
        return kept, reading


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


class DroppedLinksWarning(UserWarning):
    """Not every line of a link file is a link of the graph; the message counts the others."""


@dataclass(frozen=True)
class Reading:
    """The lines of a link file, counted: none is lost without a trace.

    ``lines = links + duplicates + self_links + impossible``

    Args:
        lines: lines that state a link, so no header, comment or blank; in GraphML, edges.
        links: undirected links of the graph.
        duplicates: lines about a link that another line states, in this or the other direction.
        conflicts: those of the duplicates that gave another score, below the one that was kept.
        self_links: lines that link a node to itself.
        impossible: links that were left out because their probability is 0.
    """

    lines: int
    links: int
    duplicates: int
    conflicts: int
    self_links: int
    impossible: int

    @property
    def lossless(self) -> bool:
        """Whether the graph says all that the file says; duplicates that agree lose nothing."""
        return not (self.conflicts or self.self_links or self.impossible)

    def __str__(self) -> str:
        parts = [f"{_count(self.lines, 'line')}, {_count(self.links, 'link')}"]
        if self.duplicates:
            parts.append(f"{_count(self.duplicates, 'duplicate')} merged")
        if self.conflicts:
            parts.append(f"{self.conflicts} of them with a lower score, which was dropped")
        if self.self_links:
            parts.append(f"{_count(self.self_links, 'self link')} dropped")
        if self.impossible:
            parts.append(f"{_count(self.impossible, 'link')} of score 0 dropped")
        return ", ".join(parts)


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
