"""``varigraph audit``: a method on your own network against brute force."""

from __future__ import annotations

import json
import sys
from contextlib import redirect_stdout
from typing import Annotated

import typer

from varigraph.cli.mistakes import STOPPED, as_options, explained
from varigraph.cli.options import (
    METHOD,
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
    Nodes,
    NoiseVar,
    OwnSeed,
    Root,
    Sources,
    Task,
    Weights,
)
from varigraph.cli.terminal import progress_bars, stdout


def audit(
    model: Model,
    graph: Graph = None,
    *,
    method: MethodName = "auto",
    samples: Annotated[
        int, typer.Option(help="Draws of brute force.", rich_help_panel=METHOD)
    ] = 2000,
    masks: Annotated[
        int | None,
        typer.Option(
            help="Dropout masks or draws of the method.",
            show_default="100, or that of the run",
            rich_help_panel=METHOD,
        ),
    ] = None,
    task: Task = "classification",
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
    nodes: Nodes = None,
    root: Root = None,
    as_json: Json = False,
) -> None:
    """Compare the error bars of a method with brute force, on your own network and graph.

    Brute force draws noise, links and dropout anew, runs the network, and does so many times.
    """
    with (
        explained(STOPPED, as_json=as_json),
        progress_bars() as progress,
        redirect_stdout(sys.stderr),
    ):
        from varigraph.studies.own_model.answers import audited
        from varigraph.studies.own_model.subject import subject

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
        found = audited(
            asked,
            nodes=nodes,
            method=method,
            samples=samples,
            masks=masks,
            links=links,
            sources=None if sources is None else tuple(sources.split(",")),
            task=task,
            dropout=dropout,
            memory=memory,
        )
    if as_json:
        typer.echo(json.dumps({"title": asked.title, **found.to_dict(), "notes": asked.notes}))
        return
    console = stdout()
    console.print(as_options(f"{asked.title}: {found}"), soft_wrap=True)
    for note in asked.notes:
        console.print(f"note: {note}", soft_wrap=True)
