"""``varigraph calibrate``: probabilities and error bars that come true as often as they say."""

from __future__ import annotations

import json
import sys
from contextlib import redirect_stdout
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from varigraph.cli.mistakes import STOPPED, explained
from varigraph.cli.options import (
    METHOD,
    NODES,
    OUTPUT,
    Arguments,
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
from varigraph.cli.terminal import progress_bars, stdout
from varigraph.reporting.text_table import TextTable, terminal

if TYPE_CHECKING:
    from varigraph.studies.own_model.calibration import Calibration


def calibrate(
    model: Model,
    graph: Graph = None,
    *,
    nodes: Annotated[
        str,
        typer.Option(
            help=f"Nodes to learn from, none of which the network was trained on. {NODES}",
            rich_help_panel=METHOD,
        ),
    ] = "val",
    kind: Annotated[
        str,
        typer.Option(
            help="temperature; graph, one by node from what its neighbours say; residual, for "
            "regression; auto, as task and number of nodes allow.",
            rich_help_panel=METHOD,
        ),
    ] = "auto",
    method: MethodName = "auto",
    task: Task = "classification",
    samples: Samples = None,
    dropout: Dropout = None,
    sources: Sources = None,
    seed: OwnSeed = None,
    memory: Memory = "half",
    weights: Weights = None,
    arguments: Arguments = None,
    forward: ForwardName = None,
    noise_var: NoiseVar = None,
    noise: DrawnNoise = None,
    links: Links = None,
    out: Annotated[
        Path, typer.Option(help="File to write, for predict.", rich_help_panel=OUTPUT)
    ] = Path("calibrator.json"),
    root: Root = None,
    as_json: Json = False,
) -> None:
    """Learn from nodes with known answers how far confidences and error bars can be believed.

    The truth is y in the graph. What was learned is written to a file: predict --calibrator takes
    it. Where the graph has a test_mask, these nodes are judged with and without it.
    """
    with (
        explained(STOPPED, as_json=as_json),
        progress_bars() as progress,
        redirect_stdout(sys.stderr),
    ):
        from varigraph.files import check_target
        from varigraph.studies.own_model.calibration import calibrated
        from varigraph.studies.own_model.subject import subject

        check_target(out)
        asked = subject(
            model,
            graph,
            weights=weights,
            arguments=arguments,
            forward=forward,
            noise=noise,
            noise_var=noise_var,
            seed=seed,
            root=root,
            progress=progress,
        )
        found = calibrated(
            asked,
            nodes=nodes,
            kind=kind,
            method=method,
            links=links,
            sources=None if sources is None else tuple(sources.split(",")),
            samples=samples,
            task=task,
            dropout=dropout,
            memory=memory,
            progress=partial(progress, "predict"),
        )
        found.calibrator.save(out)
    if as_json:
        typer.echo(json.dumps({**found.record(), "file": str(out)}))
    else:
        _print(found, out)


def _print(found: Calibration, out: Path) -> None:
    console = stdout()
    console.print(f"{found.title}: {found.words}, from {found.learned_from:,} nodes")
    if found.before is not None and found.after is not None:
        console.print(f"judged on {found.judged:,} test nodes:")
        console.print(terminal(_table(found.before, found.after)))
    for note in found.notes:
        console.print(f"note: {note}", soft_wrap=True)
    console.print(str(out), soft_wrap=True)


def _table(before: dict[str, float], after: dict[str, float]) -> TextTable:
    rows = tuple((name, f"{before[name]:.3f}", f"{after[name]:.3f}") for name in before)
    return TextTable("", ("", "before", "after"), rows)
