"""Progress bars with the time that is left, on standard error and only where somebody watches."""

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


@contextmanager
def progress_bars(console: Console | None = None) -> Iterator[Show]:
    """A function that shows how far each stage is: ``show(stage, done, total)``.

    Args:
        console: where to draw; standard error if left out.
    """
    console = console or Console(stderr=True)
    bars = Progress(
        TextColumn("{task.description:10}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
        console=console,
        disable=not console.is_terminal,
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
