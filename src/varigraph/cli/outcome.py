"""What a study found, on the terminal."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Protocol

from rich.console import RenderableType

from varigraph.cli.terminal import stdout


class Outcome(Protocol):
    """What all studies that go on where they stopped have to say."""

    @property
    def reused(self) -> tuple[str, ...]:
        """Files of an earlier call that were taken over."""

    @property
    def notes(self) -> tuple[str, ...]:
        """What a reader must know."""

    @property
    def folder(self) -> Path:
        """Where everything was written."""


def print_outcome(outcome: Outcome, tables: Iterable[RenderableType]) -> None:
    """What was reused, the tables, the notes, and last the folder.

    Args:
        outcome: of a study.
        tables: its figures.
    """
    console = stdout()
    if outcome.reused:
        console.print(f"reused from an earlier run: {', '.join(outcome.reused)}", soft_wrap=True)
    for table in tables:
        console.print(table)
    for note in outcome.notes:
        console.print(note, soft_wrap=True)
    console.print(str(outcome.folder), soft_wrap=True)
