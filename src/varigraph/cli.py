"""The command line: ``varigraph run cora``, ``varigraph audit``."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, cast

import typer
from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TaskID,
    TextColumn,
    TimeElapsedColumn,
)

import varigraph
from varigraph.data import DATASETS
from varigraph.errors import VarigraphError
from varigraph.moments.links import Reading
from varigraph.prediction.predict import Method
from varigraph.report.tables import terminal
from varigraph.studies import run as studies
from varigraph.studies.audit import audit_run

app = typer.Typer(
    help="Error bars for trained graph neural networks.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_show_locals=False,
)
_stderr = Console(stderr=True)


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"varigraph {varigraph.__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_print_version, is_eager=True, help="Print the version."
        ),
    ] = False,
) -> None:
    """Error bars for trained graph neural networks."""


@app.command(epilog="Example: varigraph run cora --seed 1 --out runs/second")
def run(
    dataset: Annotated[str, typer.Argument(help=f"One of {', '.join(DATASETS)}.")] = "cora",
    *,
    out: Annotated[
        Path | None, typer.Option(help="Folder to write.", show_default="runs/DATASET-seedSEED")
    ] = None,
    seed: Annotated[int, typer.Option(help="Seed of everything that is drawn.")] = 0,
    samples: Annotated[int, typer.Option(help="Dropout masks per prediction.")] = 100,
    epochs: Annotated[int, typer.Option(help="Passes over the training nodes.")] = 50,
    links: Annotated[
        str, typer.Option(help="Uncertain links are coins (bernoulli) or weights (weight).")
    ] = "bernoulli",
    root: Annotated[
        Path | None, typer.Option(help="Folder of the data sets.", show_default="$VARIGRAPH_DATA")
    ] = None,
    fresh: Annotated[bool, typer.Option("--fresh", help="Replace an earlier run.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the results as JSON.")] = False,
) -> None:
    """Train the paper's network, add noise to the features, predict with error bars.

    A run that was broken off goes on where it stopped.
    """
    with _explained(), _progress_bars() as progress:
        outcome = studies.run(
            dataset,
            out=out,
            seed=seed,
            samples=samples,
            epochs=epochs,
            links=cast(Reading, links),  # checked where all options are
            root=root,
            fresh=fresh,
            progress=progress,
        )
    if as_json:
        typer.echo(json.dumps({**studies.results(outcome), "folder": str(outcome.folder)}))
    else:
        _print(outcome)


@app.command(epilog="Example: varigraph audit --run runs/cora-seed0 --method diagonal")
def audit(
    dataset: Annotated[str, typer.Argument(help=f"One of {', '.join(DATASETS)}.")] = "cora",
    *,
    run_folder: Annotated[
        Path | None,
        typer.Option("--run", help="Folder of a run.", show_default="runs/DATASET-seedSEED"),
    ] = None,
    method: Annotated[str, typer.Option(help="What to audit.")] = "diagonal",
    samples: Annotated[int, typer.Option(help="Draws of brute force.")] = 2000,
    noise: Annotated[float, typer.Option(help="Noise in per cent of the mean feature.")] = 12.0,
    seed: Annotated[int, typer.Option(help="Seed of the run, if it is not there yet.")] = 0,
    root: Annotated[
        Path | None, typer.Option(help="Folder of the data sets.", show_default="$VARIGRAPH_DATA")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the results as JSON.")] = False,
) -> None:
    """Compare the error bars of a method with brute force, on the network of a run.

    A run that is not there, or not finished, is made first.
    """
    with _explained(), _progress_bars() as progress:
        done = audit_run(
            dataset,
            out=run_folder,
            seed=seed,
            noise=noise,
            method=cast(Method, method),  # checked where all options are
            samples=samples,
            root=root,
            progress=progress,
        )
    if as_json:
        typer.echo(json.dumps({**done.found.to_dict(), "folder": str(done.folder)}))
    else:
        typer.echo(f"{done.title}: {done.found}\n{done.folder}")


def _print(outcome: studies.Outcome) -> None:
    stdout = Console(highlight=False)
    if outcome.reused:
        stdout.print(f"reused from an earlier run: {', '.join(outcome.reused)}", soft_wrap=True)
    stdout.print(terminal(outcome.levels, title=outcome.title))
    for note in outcome.notes:
        stdout.print(note, soft_wrap=True)
    stdout.print(str(outcome.folder), soft_wrap=True)


@contextmanager
def _progress_bars() -> Iterator[studies.Progress]:
    bars = Progress(
        TextColumn("{task.description:10}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        console=_stderr,
        disable=not _stderr.is_terminal,
        transient=True,
    )
    tasks: dict[str, TaskID] = {}

    def show(stage: str, done: int, total: int) -> None:
        if stage not in tasks:
            tasks[stage] = bars.add_task(stage, total=total)
        bars.update(tasks[stage], completed=done)

    with bars:
        yield show


@contextmanager
def _explained() -> Iterator[None]:
    try:
        yield
    except VarigraphError as error:
        print(f"error: {error}", file=sys.stderr)
        raise typer.Exit(2) from error
    except KeyboardInterrupt as error:
        print("stopped; what was finished is kept, the same command goes on", file=sys.stderr)
        raise typer.Exit(130) from error
