"""Pieces of a comparison: each is a file that is made once, from pieces that are files too."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from varigraph.studies.comparison.options import Options


class Piece(Protocol):
    """Something to make. It depends on its own description alone, never on what ran before it."""

    @property
    def name(self) -> str:
        """Where it is kept below the folder of the comparison, without suffix."""

    @property
    def kind(self) -> str:
        """What is made: pieces of one kind take about as long on the same data set."""

    @property
    def dataset(self) -> str:
        """The data set that it is about."""

    def needs(self, options: Options) -> tuple[Piece, ...]:
        """The pieces that must be there first."""

    def finished(self, options: Options) -> bool:
        """Whether it is there and whole."""

    def make(self, options: Options) -> None:
        """Make it; whatever happens, its file is whole or absent."""

    def seconds(self, options: Options) -> float:
        """Processor time that it took, once it is finished."""


def unfinished(wanted: Iterable[Piece], options: Options) -> dict[str, Piece]:
    """What is still to be made, by name; what is needed stands before what needs it.

    Args:
        wanted: the pieces that count in the end.
        options: of the comparison.
    """
    found: dict[str, Piece] = {}
    for piece in wanted:
        if piece.name not in found and not piece.finished(options):
            found |= unfinished(piece.needs(options), options)
            found[piece.name] = piece
    return found
