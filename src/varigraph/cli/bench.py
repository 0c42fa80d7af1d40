"""``varigraph bench``: how long error bars take."""

from __future__ import annotations

import json
from typing import Annotated

import typer

from varigraph.cli.mistakes import STOPPED, explained
from varigraph.cli.options import Dataset, Epochs, Json, Memory, Root, Seed
from varigraph.cli.progress import progress_bars
from varigraph.cli.terminal import stdout
from varigraph.reporting.text_table import terminal
from varigraph.studies.speed import bench as studies
from varigraph.studies.speed.truth import DRAWS


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
        found = studies.bench(
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
