"""``varigraph links``: how likely each link is."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, cast

import typer

from varigraph.cli.mistakes import explained
from varigraph.cli.options import Fresh, Json, Root, Seed
from varigraph.cli.progress import progress_bars
from varigraph.cli.terminal import stdout
from varigraph.data import DATASETS
from varigraph.links.link_probabilities import Odds
from varigraph.links.methods import Method
from varigraph.reporting.tables import link_quality
from varigraph.studies import links as studies
from varigraph.studies.progress import in_hundredths


def links(
    source: Annotated[
        str,
        typer.Argument(
            metavar="DATASET|FILE",
            help=f"One of {', '.join(DATASETS)}, or a file with a link in each line, of which "
            "the two ends alone count.",
        ),
    ],
    *,
    method: Annotated[
        str, typer.Option(help="seal, hadamard (the fast one), or auto by the size of the graph.")
    ] = "auto",
    folds: Annotated[int, typer.Option(help="Models to train, each for its share of links.")] = 5,
    odds: Annotated[
        str, typer.Option(help="As if links and non-links were equally frequent, or by density.")
    ] = "balanced",
    seed: Seed = 0,
    out: Annotated[
        Path | None,
        typer.Option(help="Folder to write.", show_default="links/NAME-METHOD-seedSEED"),
    ] = None,
    root: Root = None,
    fresh: Fresh = False,
    as_json: Json = False,
) -> None:
    """Compute how likely each link of a graph is, judged from the rest of the graph.

    What was broken off goes on after the last finished fold.
    """
    with explained(as_json=as_json), progress_bars() as show:
        outcome = studies.links_study(
            source,
            method=cast(Method, method),  # checked where all options are
            folds=folds,
            odds=cast(Odds, odds),
            seed=seed,
            out=out,
            root=root,
            fresh=fresh,
            progress=in_hundredths(show, "links"),
        )
    if as_json:
        record = {**studies.quality_record(outcome), "folder": str(outcome.folder)}
        typer.echo(json.dumps(record))
    else:
        _print(outcome)


def _print(outcome: studies.LinksOutcome) -> None:
    console = stdout()
    console.print(f"{outcome.title}: quality at balanced odds", soft_wrap=True)
    console.print(link_quality(outcome.quality))
    for note in outcome.notes:
        console.print(note, soft_wrap=True)
    console.print(str(outcome.folder / "links.tsv"), soft_wrap=True)
