"""The links of a file in numbers, and what is left of them when each is listed once."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import chain, count
from pathlib import Path
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from varigraph.data.link_blocks import Floats, LinkBlock
from varigraph.data.reading import Reading
from varigraph.errors import FileError

Integers: TypeAlias = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class LinkTable:
    """Links between numbered nodes.

    Args:
        names: names of the nodes, in the order in which the file mentions them.
        ends: the two nodes of each link, ``[links, 2]``.
        probs: its probability, ``[links]``.
    """

    names: list[str]
    ends: Integers
    probs: Floats

    @classmethod
    def of(cls, blocks: Iterable[LinkBlock], path: Path, scale: float | None) -> LinkTable:
        """One row for each line of a file.

        Raises:
            FileError: if a score cannot be a probability, or there is no line at all.
        """
        numbers: defaultdict[str, int] = defaultdict(count().__next__)  # new names count on
        ends, probs = [], []
        for block in blocks:
            probs.append(block.probabilities(path, scale))
            names = chain(block.nodes, *zip(block.sources, block.targets, strict=True))
            numbered = np.fromiter(map(numbers.__getitem__, names), dtype=np.int64)
            ends.append(numbered[len(block.nodes) :].reshape(-1, 2))
        if not sum(map(len, probs)):
            raise FileError(path, "there are no links in this file", "give one that has some")
        return cls(list(numbers), np.concatenate(ends), np.concatenate(probs))

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
        kept = order[start].argsort()  # back to the order of the file
        first, best = order[start][kept], largest[kept]
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
        return LinkTable(self.names, ends[first][possible], best[possible]), reading
