"""What became of the lines of a link file."""

from __future__ import annotations

from dataclasses import dataclass


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
