"""How far it is, on standard error: bars where somebody watches, elsewhere a line now and then."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TaskID,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

from varigraph.studies.progress import Progress as Show

#: Seconds in which what an earlier call had finished is read back: it says nothing about speed.
RESUMING = 1.0
#: Seconds over which the speed is taken; the parts of a fold are not equally fast.
WINDOW = 600.0
#: Seconds between two lines: at least, and at most if there is anything to tell.
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
    """Progress for a file or a pipe: plain lines, none of which is taken back.

    Args:
        console: where to write.
    """

    def __init__(self, console: Console) -> None:
        self._console = console
        self._begun = self._last = time.monotonic()
        self._told: dict[str, int] = {}

    def show(self, stage: str, done: int, total: int) -> None:
        """A line for the end of a stage, each tenth of it, or after some silence.

        Args:
            stage: whose work it is.
            done: steps behind us.
            total: steps in all.
        """
        now = time.monotonic()
        silence, tenth = now - self._last, LINES * done // max(total, 1)
        news = tenth > self._told.get(stage, 0)
        if (news and (done >= total or silence >= SOON)) or silence >= LATE:
            self._told[stage], self._last = tenth, now
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
