"""``varigraph explain``: which measurements and links make the answers of a network uncertain."""

from __future__ import annotations

import json
import sys
from contextlib import redirect_stdout
from pathlib import Path
from typing import Annotated, Any

import typer

from varigraph.cli.mistakes import STOPPED, explained
from varigraph.cli.options import (
    METHOD,
    OUTPUT,
    Arguments,
    DrawnNoise,
    Dropout,
    ForwardName,
    Graph,
    Json,
    Links,
    Memory,
    Model,
    Nodes,
    NoiseVar,
    OwnSeed,
    Root,
    Samples,
    Sources,
    Task,
    Weights,
)
from varigraph.cli.terminal import progress_bars, stdout


def explain(
    model: Model,
    graph: Graph = None,
    *,
    node: Annotated[
        str | None,
        typer.Option(
            help="Whose answer, by its number from 0 or, where there are names, by its name.",
            show_default="all answers together",
            rich_help_panel=METHOD,
        ),
    ] = None,
    nodes: Nodes = None,
    output: Annotated[
        str | None,
        typer.Option(
            help="Which of its answers: a class by number or name, or a column of values.",
            show_default="the likeliest class of a node, all of all nodes",
            rich_help_panel=METHOD,
        ),
    ] = None,
    of: Annotated[
        str | None,
        typer.Option(
            help="probability or logit of a class; value in regression.",
            show_default="probability, or value",
            rich_help_panel=METHOD,
        ),
    ] = None,
    method: Annotated[
        str, typer.Option(help="auto, first-order or sampled.", rich_help_panel=METHOD)
    ] = "auto",
    task: Task = "classification",
    samples: Samples = None,
    dropout: Dropout = None,
    sources: Sources = None,
    memory: Memory = "half",
    weights: Weights = None,
    arguments: Arguments = None,
    forward: ForwardName = None,
    noise_var: NoiseVar = None,
    noise: DrawnNoise = None,
    links: Links = None,
    seed: OwnSeed = None,
    top: Annotated[
        int,
        typer.Option(help="Causes of each kind to list.", min=1, rich_help_panel=OUTPUT),
    ] = 20,
    out: Annotated[
        Path | None,
        typer.Option(
            help="Table of the causes to write, .csv or .parquet.",
            show_default="none",
            rich_help_panel=OUTPUT,
        ),
    ] = None,
    root: Root = None,
    as_json: Json = False,
) -> None:
    """Say what makes answers uncertain: which measurement to repeat, which link to verify.

    The variance of one answer, or of all together, is divided over sources, nodes, features and
    links, the largest first. The parts add up.
    """
    with (
        explained(STOPPED, as_json=as_json),
        progress_bars() as progress,
        redirect_stdout(sys.stderr),
    ):
        from varigraph.prediction.table import check_table_file, write_table
        from varigraph.studies.own_model.explanation import cause_columns, explanation
        from varigraph.studies.own_model.subject import subject

        if out is not None:
            check_table_file(out)
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
        found = explanation(
            asked,
            node=node,
            nodes=nodes,
            output=output,
            of=of,
            method=method,
            links=links,
            sources=None if sources is None else tuple(sources.split(",")),
            samples=samples,
            dropout=dropout,
            task=task,
            memory=memory,
            top=top,
        )
        if out is not None:
            write_table(out, cause_columns(found))
    if as_json:
        file = None if out is None else str(out)
        record: dict[str, Any] = {"title": asked.title, **found.to_dict()}
        typer.echo(json.dumps({**record, "notes": list(asked.notes), "file": file}))
        return
    console = stdout()
    console.print(f"{asked.title}: {found}", soft_wrap=True)
    for note in asked.notes:
        console.print(f"note: {note}", soft_wrap=True)
    if out is not None:
        console.print(str(out), soft_wrap=True)
