"""``varigraph study paper``: the paper's tables."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from varigraph.cli.mistakes import INTERRUPTED, explained
from varigraph.cli.options import Fresh, Json, Root
from varigraph.cli.terminal import stdout
from varigraph.files import check_target, write_text
from varigraph.reporting.text_table import terminal
from varigraph.studies.comparison import study as studies

#: Seeds, draws and links where nothing else is asked for, in a whole study and in a quick look.
WHOLE, QUICK = (5, 100, "hadamard"), (1, 20, "none")


def paper(
    *,
    table: Annotated[
        list[int] | None,
        typer.Option(help="Table 1 to 6; may be repeated.", show_default="all"),
    ] = None,
    seeds: Annotated[
        int | None,
        typer.Option(help="Repetitions; slow methods get fewer.", show_default="5, quick 1"),
    ] = None,
    samples: Annotated[
        int | None, typer.Option(help="Draws per prediction.", show_default="100, quick 20")
    ] = None,
    links: Annotated[
        str | None,
        typer.Option(
            help="Probabilities of links: hadamard, seal or none.",
            show_default="hadamard, quick none",
        ),
    ] = None,
    quick: Annotated[
        bool,
        typer.Option("--quick", help="Cora only, hardly trained: does everything work?"),
    ] = False,
    resume: Annotated[
        bool, typer.Option("--resume", help="Go on with the study in the folder.")
    ] = False,
    fresh: Fresh = False,
    out: Annotated[Path, typer.Option(help="Folder to write.")] = studies.FOLDER,
    root: Root = None,
    jobs: Annotated[
        int | None, typer.Option(help="Processes at work.", show_default="2, or 1 on one core")
    ] = None,
    write_docs: Annotated[
        Path | None, typer.Option(help="Write the tables to this Markdown file as well.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Make the tables of the paper, with every method at every level of noise.

    It may be stopped at any time: with --resume it goes on, and repeats nothing.
    """
    default = QUICK if quick else WHOLE
    chosen = links if links is not None else default[2]
    with explained(as_json=as_json), _resumable(), _progress() as progress:
        if write_docs is not None:
            check_target(write_docs)
        outcome = studies.paper_study(
            table or (),
            seeds=seeds if seeds is not None else default[0],
            samples=samples if samples is not None else default[1],
            links=None if chosen == "none" else chosen,
            quick=quick,
            resume=resume,
            fresh=fresh,
            out=out,
            root=root,
            jobs=jobs if jobs is not None else min(2, os.cpu_count() or 1),
            progress=progress,
        )
        if write_docs is not None:
            write_text(write_docs, outcome.text)
    if as_json:
        typer.echo(json.dumps({**studies.results(outcome), "folder": str(outcome.folder)}))
    else:
        _print(outcome)


@contextmanager
def _resumable() -> Iterator[None]:
    """Within it, Ctrl-C says that going on takes an option."""
    try:
        yield
    except KeyboardInterrupt as error:
        print("stopped; what was finished is kept, --resume goes on", file=sys.stderr)
        raise typer.Exit(INTERRUPTED) from error


@contextmanager
def _progress() -> Iterator[Callable[[studies.Step], None]]:
    """A bar where somebody watches; elsewhere a line for each piece, on standard error."""
    console = Console(stderr=True)
    if not console.is_terminal:
        yield lambda step: print(_line(step), file=sys.stderr, flush=True)
        return
    columns = (
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("{task.description}", markup=False),
    )
    with Progress(*columns, console=console, transient=True) as bars:
        task = bars.add_task("", total=None)
        yield lambda step: bars.update(
            task, completed=step.done, total=step.total, description=_line(step)
        )


def _line(step: studies.Step) -> str:
    left = f"about {step.seconds_left / 60:.0f} min left" if step.seconds_left else "all made"
    return f"{step.name}: {step.seconds:.1f} s; {step.done} of {step.total}, {left}"


def _print(outcome: studies.Outcome) -> None:
    console = stdout()
    for part in (part for parts in outcome.tables.values() for part in parts):
        console.print(terminal(part))
        for note in part.notes:
            console.print(note, soft_wrap=True)
        console.print()
    console.print(str(outcome.folder), soft_wrap=True)
