"""The terminal: results on standard output, progress on standard error."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from rich.console import Console, RenderableType
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TaskID,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

if TYPE_CHECKING:
    from varigraph.studies.config import Progress as Show

#: Columns of a file or a pipe, where nothing needs to be cut off.
WIDE = 200


def stdout() -> Console:
    """Standard output, without colour if it is not a terminal; text is shown as it is.

    Names and paths of users may hold ``[/y]`` or ``:x:``, which rich would obey.
    """
    console = Console(highlight=False, markup=False, emoji=False)
    if not console.is_terminal and "COLUMNS" not in os.environ:
        console.width = WIDE
    return console


def cell(text: str, *, width: int = 30) -> str:
    """A line of up to ``width`` characters of foreign text, none of which controls the terminal.

    Args:
        text: such as the name of a node.
        width: characters to show.
    """
    line = "".join(char if char.isprintable() else " " for char in text)
    return line if len(line) <= width else f"{line[: width - 1]}…"


class Outcome(Protocol):
    """What every study that can be resumed reports."""

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


#: Seconds for reading back what an earlier call had finished, which says nothing about speed.
RESUMING = 1.0
#: Seconds over which the speed is taken; the parts of a fold are not equally fast.
WINDOW = 600.0
#: Seconds between two lines: at least, and at most if there is any news.
SOON, LATE = 1.0, 10.0
#: Lines for a stage, if they do not come too soon.
LINES = 10


@contextmanager
def progress_bars(console: Console | None = None) -> Iterator[Show]:
    """A function that shows how far each stage is: ``show(stage, done, total)``.

    Args:
        console: where to draw; standard error if left out.
    """
    console = console or Console(stderr=True)
    if console.is_terminal:
        with _bars(console) as show:
            yield show
    else:
        yield Lines(console).show


class Lines:
    """Progress for a file or a pipe: plain lines, none of which is overwritten.

    Args:
        console: where to write.
    """

    def __init__(self, console: Console) -> None:
        self._console = console
        self._begun = self._last = time.monotonic()
        self._shown: dict[str, int] = {}

    def show(self, stage: str, done: int, total: int) -> None:
        """A line for the end of a stage, each tenth of it, or after some silence.

        Args:
            stage: whose work it is.
            done: steps done.
            total: steps in all.
        """
        now = time.monotonic()
        silence, tenth = now - self._last, LINES * done // max(total, 1)
        news = tenth > self._shown.get(stage, 0)
        if (news and (done >= total or silence >= SOON)) or silence >= LATE:
            self._shown[stage], self._last = tenth, now
            line = f"{stage}: {done} of {total}, {now - self._begun:.0f} s"
            print(line, file=self._console.file, flush=True)


@contextmanager
def _bars(console: Console) -> Iterator[Show]:
    bars = Progress(
        TextColumn("{task.description:10}", markup=False),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
        console=console,
        transient=True,
        speed_estimate_period=WINDOW,
    )
    tasks: dict[str, tuple[TaskID, float]] = {}

    def show(stage: str, done: int, total: int) -> None:
        now = time.monotonic()
        task, begun = tasks.get(stage) or (bars.add_task(stage, total=total), now)
        tasks[stage] = task, begun
        if now - begun < RESUMING:
            bars.reset(task, total=total, completed=done)
        else:
            bars.update(task, completed=done)

    with bars:
        yield show
