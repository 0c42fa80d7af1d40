"""The paper's network: ``varigraph run``, ``audit``, ``report`` and ``bench``."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, cast

import typer

from varigraph.choices import Reading
from varigraph.cli.mistakes import STOPPED, explained
from varigraph.cli.options import (
    Dataset,
    Epochs,
    Fresh,
    Json,
    LinkReading,
    Memory,
    Root,
    Seed,
)
from varigraph.cli.terminal import progress_bars, stdout
from varigraph.reporting.text_table import terminal
from varigraph.studies.defaults import DRAWS


def run(
    dataset: Dataset = "cora",
    *,
    out: Annotated[
        Path | None, typer.Option(help="Folder to write.", show_default="runs/DATASET-seedSEED")
    ] = None,
    seed: Seed = 0,
    samples: Annotated[
        int, typer.Option(help="Dropout masks of the paper's method; brute force draws twice that.")
    ] = 100,
    epochs: Epochs = 50,
    links: Annotated[
        str | None,
        typer.Option(
            help="Take links as uncertain: probabilities by seal or hadamard, or from a file.",
            show_default="all links are certain",
        ),
    ] = None,
    reading: LinkReading = "bernoulli",
    explain: Annotated[int, typer.Option(help="Nodes whose causes the page has.")] = 30,
    root: Root = None,
    fresh: Fresh = False,
    as_json: Json = False,
) -> None:
    """Train a network, add noise to its features, and show its answers with error bars.

    What it prints is the beginning; the page that it writes has every node. A run that was broken
    off goes on where it stopped.
    """
    with explained(as_json=as_json), progress_bars() as progress:
        from varigraph.studies.first_screen import first_screen
        from varigraph.studies.run import results

        shown = first_screen(
            dataset,
            out=out,
            seed=seed,
            samples=samples,
            epochs=epochs,
            links=links,
            reading=cast(Reading, reading),  # checked where all options are
            explain=explain,
            root=root,
            fresh=fresh,
            progress=progress,
        )
    outcome = shown.outcome
    if as_json:
        about = {"folder": str(outcome.folder), "first_screen": shown.to_dict()}
        typer.echo(json.dumps({**results(outcome), **about}))
        return
    if outcome.reused:
        typer.echo(f"reused from an earlier run: {', '.join(outcome.reused)}", err=True)
    typer.echo(str(shown))


def bench(
    dataset: Dataset = "cora",
    *,
    masks: Annotated[int, typer.Option(help="Dropout masks T; draws of the sampled method.")] = 100,
    repeats: Annotated[int, typer.Option(help="Calls to time, after a first one.")] = 5,
    memory: Memory = "4GiB",
    threads: Annotated[
        int | None, typer.Option(help="Threads of torch.", show_default="as torch is set")
    ] = None,
    epochs: Epochs = 10,
    draws: Annotated[
        int, typer.Option(help="Draws of brute force, which tells the fidelity.")
    ] = DRAWS,
    seed: Seed = 0,
    root: Root = None,
    as_json: Json = False,
) -> None:
    """Measure time, memory and fidelity of every method, next to what one would do without.

    On the paper's network, trained for a few epochs, and 12 per cent of noise in the features.
    Every row is measured in a process of its own; nothing is written.
    """
    with explained(STOPPED, as_json=as_json), progress_bars() as progress:
        from varigraph.studies.speed import bench as speed

        found = speed.bench(
            dataset,
            masks=masks,
            repeats=repeats,
            memory=memory,
            threads=threads,
            epochs=epochs,
            draws=draws,
            seed=seed,
            root=root,
            progress=progress,
        )
    if as_json:
        typer.echo(json.dumps(found.to_dict()))
        return
    table, console = found.table(), stdout()
    console.print(terminal(table))
    for note in table.notes:
        console.print(note, soft_wrap=True)
