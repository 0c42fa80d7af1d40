"""Draws for some rows of a larger graph: by the numbers that nodes and links have there."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from varigraph.errors import ModelError

Numbers: TypeAlias = npt.NDArray[np.int64]
Words: TypeAlias = npt.NDArray[np.uint64]
#: Bytes that the generator gives each time it counts: four words of 64 bits.
BYTES = 32
#: Counts that are worked on at a time: few enough for a cache.
AT_ONCE = 2**14
#: Multipliers and key steps of Philox 4x64 with ten rounds (Salmon et al., 2011).
MULTIPLIERS = np.uint64(0xD2E7470EE14C6C93), np.uint64(0xCA5A826395121157)
STEPS = 0x9E3779B97F4A7C15, 0xBB67AE8584CAA73B
ROUNDS = 10
HALF, LOW = np.uint64(32), np.uint64(0xFFFFFFFF)
WORD = 2**64


@dataclass(frozen=True, eq=False)
class Numbering:
    """Which nodes and links of a whole graph the rows of a part of it are.

    Args:
        nodes: number of each node, ``[nodes]``.
        links: number of each link, ``[links]``.
        all_links: how many links the whole has.
        between: number of each link that does not lead from a node to itself, among such links.
        all_between: how many of these the whole has.
        coins: number of the coin of each link, ``[links]``; None where links are certain.
    """

    nodes: Numbers
    links: Numbers
    all_links: int
    between: Numbers
    all_between: int
    coins: Numbers | None = None

    def of(self, count: int) -> Numbers:  # -> [count]
        """Numbers of the rows of a value that has so many.

        Of nodes, of links, or of links and behind them the loops that a layer adds, which may have
        dropped those of the graph first.

        Raises:
            ModelError: it is about something else.
        """
        loops = len(self.nodes)
        known: dict[int, Callable[[], Numbers]] = {
            len(self.between) + loops: lambda: self._with_loops(self.between, self.all_between),
            len(self.links) + loops: lambda: self._with_loops(self.links, self.all_links),
            len(self.between): lambda: self.between,
            len(self.links): lambda: self.links,
            loops: lambda: self.nodes,
        }
        if count not in known:
            raise ModelError(
                f"{count:,} rows are drawn for, in a part of {loops:,} nodes and "
                f"{len(self.links):,} links: it cannot be told which of the whole graph they are",
                "predict without parts: vg.predict(model, data)",
            )
        return known[count]()

    def _with_loops(self, links: Numbers, count: int) -> Numbers:
        return np.concatenate([links, count + self.nodes])


_current: ContextVar[Numbering | None] = ContextVar("numbering", default=None)


def numbering() -> Numbering | None:
    """How rows are numbered now; None where a graph is a whole of its own."""
    return _current.get()


@contextmanager
def numbered(numbers: Numbering) -> Iterator[None]:
    """While this is open, rows are drawn for by these numbers."""
    token = _current.set(numbers)
    try:
        yield
    finally:
        _current.reset(token)


def drawn_at(
    rows: Numbers, width: int, kind: type[Any], counter: tuple[int, int, int], *, key: int
) -> npt.NDArray[Any]:  # -> [rows, width]
    """What a stream of random numbers holds for some rows, as if all rows had been drawn.

    Args:
        rows: their numbers; row i has the numbers from ``i * width`` on.
        width: how many each has.
        kind: unsigned type of a number.
        counter: place, sample and source of the stream.
        key: of the generator.
    """
    each = BYTES // np.dtype(kind).itemsize
    counts = (width + each - 2) // each + 1  # that a row may reach into
    step = max(1, AT_ONCE // counts)
    found = np.empty((len(rows), width), dtype=kind)
    for start in range(0, len(rows), step):
        first = rows[start : start + step] * width
        at = first // each
        words = _words(at[:, None] + np.arange(counts), counter, key)
        place = (first - at * each)[:, None] + np.arange(width)
        drawn = words.reshape(len(first), -1).view(kind)
        found[start : start + step] = np.take_along_axis(drawn, place, axis=1)
    return found


def _words(counts: Numbers, counter: tuple[int, int, int], key: int) -> Words:  # -> [..., 4]
    """Four words for each count, those of numpy's generator."""
    # numpy counts before it draws, so that its first words are those of the next count.
    c0 = (counts + 1).astype(np.uint64)
    c1, c2, c3 = (np.full_like(c0, word) for word in counter)
    for number in range(ROUNDS):
        k0, k1 = ((part + number * step) % WORD for part, step in
                  zip((key % WORD, key >> 64), STEPS, strict=True))  # fmt: skip
        (high_0, low_0), (high_1, low_1) = map(_product, (c0, c2), MULTIPLIERS)
        c0, c1, c2, c3 = high_1 ^ c1 ^ np.uint64(k0), low_1, high_0 ^ c3 ^ np.uint64(k1), low_0
    return np.stack([c0, c1, c2, c3], axis=-1)


def _product(a: Words, b: np.uint64) -> tuple[Words, Words]:
    """The upper and the lower word of a product."""
    a_high, a_low, b_high, b_low = a >> HALF, a & LOW, b >> HALF, b & LOW
    cross = a_high * b_low + ((a_low * b_low) >> HALF)
    middle = a_low * b_high + (cross & LOW)
    return a_high * b_high + (cross >> HALF) + (middle >> HALF), a * b
