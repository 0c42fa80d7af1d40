"""``varigraph study``: experiments of many runs, each in one folder."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, cast

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from varigraph.choices import Method, Reading
from varigraph.cli.mistakes import explained
from varigraph.cli.options import Dataset, Epochs, Fresh, Json, LinkReading, Root, Seed, methods
from varigraph.cli.terminal import print_outcome, progress_bars, stdout
from varigraph.reporting.text_table import TextTable, terminal
from varigraph.studies.defaults import DOUBT, NOISE, PAPER_FOLDER

if TYPE_CHECKING:
    from varigraph.studies.comparison.study import Outcome, Step

RESUMES = "stopped; what was finished is kept, --resume goes on"
#: Default seeds, draws and links, of a whole study and of a quick look.
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
    method: Annotated[
        list[str] | None,
        typer.Option(
            help="A method of yours to compare as well, file.py:Class with fit and predict; may be "
            "repeated.",
            show_default="none",
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
    out: Annotated[Path, typer.Option(help="Folder to write.")] = PAPER_FOLDER,
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
    with explained(RESUMES, as_json=as_json), _progress() as progress:
        from varigraph.files import check_target, write_text
        from varigraph.studies.comparison import study as paper_study

        if write_docs is not None:
            check_target(write_docs)
        outcome = paper_study.paper_study(
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
            own=method or (),
            progress=progress,
        )
        if write_docs is not None:
            write_text(write_docs, outcome.text)
    if as_json:
        typer.echo(json.dumps({**paper_study.results(outcome), "folder": str(outcome.folder)}))
    else:
        _print_tables(outcome)


@contextmanager
def _progress() -> Iterator[Callable[[Step], None]]:
    """A bar on a terminal; elsewhere a line for each piece, on standard error."""
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


def _line(step: Step) -> str:
    left = f"about {step.seconds_left / 60:.0f} min left" if step.seconds_left else "all made"
    return f"{step.name}: {step.seconds:.1f} s; {step.done} of {step.total}, {left}"


def _print_tables(outcome: Outcome) -> None:
    console = stdout()
    for part in (part for parts in outcome.tables.values() for part in parts):
        console.print(terminal(part))
        for note in part.notes:
            console.print(note, soft_wrap=True)
        console.print()
    console.print(str(outcome.folder), soft_wrap=True)


#: Names of columns in two lines, so that the table fits in 80 columns.
NARROW = {
    "accuracy": "accu-\nracy",
    "variance": "vari-\nance",
    "features": "fea-\ntures",
    "interactions": "inter-\nactions",
}


def sensitivity(
    dataset: Dataset = "cora",
    *,
    noise: Annotated[
        list[float] | None,
        typer.Option(
            help="A level of noise, in per cent of the mean feature; may be repeated.",
            show_default=", ".join(f"{level:g}" for level in NOISE),
        ),
    ] = None,
    links: Annotated[
        str | None,
        typer.Option(
            help="Let links get less sure as well: probabilities by seal or hadamard, or a file.",
            show_default="all links are certain",
        ),
    ] = None,
    doubt: Annotated[
        list[float] | None,
        typer.Option(
            help="A level of doubt about links, in per cent of that found; may be repeated.",
            show_default=", ".join(f"{level:g}" for level in DOUBT),
        ),
    ] = None,
    reading: LinkReading = "bernoulli",
    method: Annotated[
        str,
        typer.Option(
            help="auto, first-order, covariance, diagonal or sampled.", autocompletion=methods
        ),
    ] = "first-order",
    samples: Annotated[int, typer.Option(help="Masks or draws, of methods that draw.")] = 100,
    epochs: Epochs = 50,
    seed: Seed = 0,
    out: Annotated[
        Path | None,
        typer.Option(help="Folder to write.", show_default="runs/DATASET-sensitivity-seedSEED"),
    ] = None,
    root: Root = None,
    fresh: Fresh = False,
    as_json: Json = False,
) -> None:
    """Train the paper's network once, then watch variance and error grow with input noise.

    A study that was interrupted goes on where it stopped.
    """
    with explained(as_json=as_json), progress_bars() as progress:
        from varigraph.studies import sensitivity as sensitivity_study

        outcome = sensitivity_study.sensitivity(
            dataset,
            out=out,
            seed=seed,
            samples=samples,
            noise=noise or NOISE,
            links=links,
            doubt=doubt or DOUBT,
            reading=cast(Reading, reading),  # checked where all options are
            method=cast(Method, method),
            epochs=epochs,
            root=root,
            fresh=fresh,
            progress=progress,
        )
    if as_json:
        typer.echo(
            json.dumps({**sensitivity_study.results(outcome), "folder": str(outcome.folder)})
        )
    else:
        print_outcome(outcome, [terminal(_narrow(table)) for table in outcome.tables])


def _narrow(table: TextTable) -> TextTable:
    return replace(table, header=tuple(NARROW.get(name, name) for name in table.header))


study = typer.Typer(
    help="Experiments of many runs, each in one folder.",
    no_args_is_help=True,
)
study.command(epilog="Example: varigraph study paper --table 4 --seeds 2 --out runs/cora-table")(
    paper
)
study.command(epilog="Example: varigraph study sensitivity cora --links hadamard")(sensitivity)
