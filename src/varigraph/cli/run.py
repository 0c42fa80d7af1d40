"""``varigraph run``: the paper's experiment."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, cast

import typer

from varigraph.cli.mistakes import explained
from varigraph.cli.options import Dataset, Epochs, Fresh, Json, LinkReading, Root, Seed
from varigraph.cli.outcome import print_outcome
from varigraph.cli.progress import progress_bars
from varigraph.moments.links import Reading
from varigraph.reporting.tables import terminal
from varigraph.studies import run as studies


def run(
    dataset: Dataset = "cora",
    *,
    out: Annotated[
        Path | None, typer.Option(help="Folder to write.", show_default="runs/DATASET-seedSEED")
    ] = None,
    seed: Seed = 0,
    samples: Annotated[int, typer.Option(help="Dropout masks per prediction.")] = 100,
    epochs: Epochs = 50,
    links: Annotated[
        str | None,
        typer.Option(
            help="Take links as uncertain: probabilities by seal or hadamard, or from a file.",
            show_default="all links are certain",
        ),
    ] = None,
    reading: LinkReading = "bernoulli",
    root: Root = None,
    fresh: Fresh = False,
    as_json: Json = False,
) -> None:
    """Train the paper's network, add noise to the features, predict with error bars.

    A run that was broken off goes on where it stopped.
    """
    with explained(as_json=as_json), progress_bars() as progress:
        outcome = studies.run(
            dataset,
            out=out,
            seed=seed,
            samples=samples,
            epochs=epochs,
            links=links,
            reading=cast(Reading, reading),  # checked where all options are
            root=root,
            fresh=fresh,
            progress=progress,
        )
    if as_json:
        typer.echo(json.dumps({**studies.results(outcome), "folder": str(outcome.folder)}))
    else:
        print_outcome(outcome, [terminal(outcome.levels, title=outcome.title)])
