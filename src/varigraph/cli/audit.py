"""``varigraph audit``: a method against brute force."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, cast

import typer

from varigraph.cli.mistakes import explained
from varigraph.cli.options import Dataset, Json, Root, methods
from varigraph.cli.progress import progress_bars
from varigraph.prediction.predict import Method
from varigraph.studies.audit import audit_run


def audit(
    dataset: Dataset = "cora",
    *,
    run_folder: Annotated[
        Path | None,
        typer.Option("--run", help="Folder of a run.", show_default="runs/DATASET-seedSEED"),
    ] = None,
    method: Annotated[
        str, typer.Option(help="What to audit.", autocompletion=methods)
    ] = "diagonal",
    samples: Annotated[int, typer.Option(help="Draws of brute force.")] = 2000,
    noise: Annotated[float, typer.Option(help="Noise in per cent of the mean feature.")] = 12.0,
    seed: Annotated[int, typer.Option(help="Seed of the run, if it is not there yet.")] = 0,
    root: Root = None,
    as_json: Json = False,
) -> None:
    """Compare the error bars of a method with brute force, on the network of a run.

    A run that is not there, or not finished, is made first.
    """
    with explained(as_json=as_json), progress_bars() as progress:
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
