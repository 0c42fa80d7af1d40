"""``varigraph report``: one page about your own network or a run, which opens offline."""

from __future__ import annotations

import json
import sys
from contextlib import redirect_stdout
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from varigraph.cli.mistakes import STOPPED, explained
from varigraph.cli.options import (
    OUTPUT,
    Arguments,
    CalibratorFile,
    DrawnNoise,
    Dropout,
    ForwardName,
    Graph,
    Json,
    Links,
    Memory,
    MethodName,
    Model,
    NoiseVar,
    OwnSeed,
    Root,
    Samples,
    Sources,
    Task,
    Weights,
)
from varigraph.cli.terminal import progress_bars
from varigraph.errors import OptionError

if TYPE_CHECKING:
    from varigraph.studies.config import Progress

PAGE = "report.html"


def report(
    ctx: typer.Context,
    model: Model,
    graph: Graph = None,
    *,
    out: Annotated[
        Path | None,
        typer.Option(
            help="File to write.",
            show_default=f"{PAGE}, of a run RUN/{PAGE}",
            rich_help_panel=OUTPUT,
        ),
    ] = None,
    explain: Annotated[
        int,
        typer.Option(
            help="Nodes whose causes to compute, the least trusted first.", rich_help_panel=OUTPUT
        ),
    ] = 30,
    audited: Annotated[
        int,
        typer.Option(
            "--audit",
            help="Draws of brute force to audit with; 0 for no audit.",
            rich_help_panel=OUTPUT,
        ),
    ] = 0,
    method: MethodName = "auto",
    task: Task = "classification",
    samples: Samples = None,
    dropout: Dropout = None,
    sources: Sources = None,
    seed: OwnSeed = None,
    memory: Memory = "half",
    calibrator: CalibratorFile = None,
    weights: Weights = None,
    arguments: Arguments = None,
    forward: ForwardName = None,
    noise_var: NoiseVar = None,
    noise: DrawnNoise = None,
    links: Links = None,
    root: Root = None,
    as_json: Json = False,
) -> None:
    """Write one page that opens offline: where the network is unsure, why, and what to do.

    A run needs no GRAPH: the page shows what it predicted, at its highest noise or at --noise.
    """
    with (
        explained(STOPPED, as_json=as_json),
        progress_bars() as progress,
        redirect_stdout(sys.stderr),
    ):
        if Path(model).is_dir() and graph is None:
            _check_for_run(ctx, model)
            shown = _of_run(
                Path(model),
                noise,
                out=out,
                explain=explain,
                audited=audited,
                root=root,
                progress=progress,
            )
        else:
            shown = _of_network(
                model,
                graph,
                audited=audited,
                page={"path": out or Path(PAGE), "explain": explain},
                progress=progress,
                about={
                    "weights": weights,
                    "arguments": arguments,
                    "forward": forward,
                    "noise": noise,
                    "noise_var": noise_var,
                    "seed": seed,
                    "root": root,
                },
                options={
                    "method": method,
                    "links": links,
                    "sources": None if sources is None else tuple(sources.split(",")),
                    "samples": samples,
                    "task": task,
                    "dropout": dropout,
                    "memory": memory,
                },
                calibrator=calibrator,
            )
    if as_json:
        typer.echo(json.dumps(shown))
    else:
        typer.echo("\n".join([*shown["warnings"], shown["page"]]))


#: Options that say something about a run that is there already.
OF_RUN = {"model", "graph", "out", "explain", "audited", "noise", "root", "as_json"}


def _check_for_run(ctx: typer.Context, model: str) -> None:
    """What a run has predicted cannot be asked for in another way."""
    given = [
        parameter.opts[0]
        for parameter in ctx.command.params
        if parameter.name not in OF_RUN
        and ctx.get_parameter_source(str(parameter.name)).name == "COMMANDLINE"  # type: ignore[union-attr] # known here
    ]
    if given:
        raise OptionError(
            f"{model} is a run, and what it predicted is fixed: {', '.join(given)} says nothing",
            "leave it out, or name a GRAPH to predict anew",
        )


def _of_run(
    folder: Path,
    noise: float | None,
    *,
    out: Path | None,
    explain: int,
    audited: int,
    root: Path | None,
    progress: Progress,
) -> dict[str, Any]:
    from varigraph.data import add_noise
    from varigraph.studies.run import METHOD
    from varigraph.studies.saved_run import SavedRun, audit_study, run_page

    made = SavedRun.read(folder, root=root, progress=progress)
    level = made.chosen(noise)
    found = None
    if audited:
        noisy = add_noise(made.graph, percent=level, seed=made.study.seed)
        found = audit_study(made.model, noisy, made.study, method=METHOD, samples=audited)
    page = run_page(made, noise=level, path=out, explain=explain, audit=found)
    return {"page": str(page), "noise": level, "warnings": made.warnings()}


def _of_network(
    model: str,
    graph: str | None,
    *,
    audited: int,
    page: dict[str, Any],
    progress: Progress,
    about: dict[str, Any],
    options: dict[str, Any],
    calibrator: Path | None,
) -> dict[str, Any]:
    from varigraph.reporting.page import report as write_page
    from varigraph.studies.own_model.answers import answered
    from varigraph.studies.own_model.answers import audited as audit_of
    from varigraph.studies.own_model.subject import subject

    asked = subject(model, graph, progress=progress, **about)
    found = answered(asked, calibrator=calibrator, progress=partial(progress, "predict"), **options)
    brute = None
    if audited:
        masks = options["samples"]
        brute = audit_of(asked, **{**options, "samples": audited, "masks": masks})
    reading: Any = options["links"] or (asked.options or {}).get("links") or "removed"
    written = write_page(
        found.prediction,
        asked.graph_needed(),
        model=asked.model,
        forward=asked.forward,
        title=asked.title,
        audit=brute,
        links=reading,
        warnings=found.notes,
        **page,
    )
    return {"page": str(written), "noise": about["noise"], "warnings": list(found.notes)}
