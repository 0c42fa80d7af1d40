"""``varigraph report``: a page about a run."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from varigraph.cli.mistakes import explained
from varigraph.cli.options import Json, Root
from varigraph.cli.progress import progress_bars
from varigraph.data import add_noise
from varigraph.reporting.page import report as write_page
from varigraph.studies.audit import audit_study
from varigraph.studies.saved_run import SavedRun
from varigraph.studies.stored_prediction import METHOD

PAGE = "report.html"


def report(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="Folder of a run.")],
    *,
    out: Annotated[
        Path | None, typer.Option(help="File to write.", show_default=f"RUN/{PAGE}")
    ] = None,
    noise: Annotated[
        float | None,
        typer.Option(help="Level of noise to show.", show_default="the highest that is there"),
    ] = None,
    explain: Annotated[
        int, typer.Option(help="Nodes whose causes to compute, the most uncertain first.")
    ] = 30,
    audited: Annotated[
        int, typer.Option("--audit", help="Draws of brute force to audit with; 0 for no audit.")
    ] = 0,
    root: Root = None,
    as_json: Json = False,
) -> None:
    """Write one page about a run that opens offline: where the network is unsure, and why."""
    with explained(as_json=as_json), progress_bars() as progress:
        made = SavedRun.read(run, root=root, progress=progress)
        level = made.chosen(noise)
        model, noisy = made.model, add_noise(made.graph, percent=level, seed=made.study.seed)
        found = None
        if audited:
            found = audit_study(model, noisy, made.study, method=METHOD, samples=audited)
        page = write_page(
            made.prediction(level),
            noisy,
            model=model,
            path=out or run / PAGE,
            title=f"{made.study.dataset}, noise {level:g} %, seed {made.study.seed}",
            levels=made.levels(),
            audit=found,
            explain=explain,
            links=made.study.reading,
            about=made.about(level),
            warnings=made.warnings(),
        )
    if as_json:
        typer.echo(json.dumps({"page": str(page), "noise": level, "warnings": made.warnings()}))
    else:
        typer.echo("\n".join([*made.warnings(), str(page)]))
