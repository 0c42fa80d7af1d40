"""``varigraph study sensitivity``: output variance against input noise."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Annotated, cast

import typer

from varigraph.cli.mistakes import explained
from varigraph.cli.options import (
    Dataset,
    Epochs,
    Fresh,
    Json,
    LinkReading,
    Root,
    Seed,
    methods,
)
from varigraph.cli.outcome import print_outcome
from varigraph.cli.progress import progress_bars
from varigraph.moments.links import Reading
from varigraph.prediction.predict import Method
from varigraph.reporting.text_table import TextTable, terminal
from varigraph.studies import sensitivity as studies
from varigraph.studies.ladders import DOUBT, NOISE

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

    A study that was broken off goes on where it stopped.
    """
    with explained(as_json=as_json), progress_bars() as progress:
        outcome = studies.sensitivity(
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
        typer.echo(json.dumps({**studies.results(outcome), "folder": str(outcome.folder)}))
    else:
        print_outcome(outcome, [terminal(_narrow(table)) for table in outcome.tables])


def _narrow(table: TextTable) -> TextTable:
    return replace(table, header=tuple(NARROW.get(name, name) for name in table.header))
