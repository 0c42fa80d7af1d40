"""``varigraph partition``: a large graph divided into parts that processes work on."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, cast

import typer

from varigraph.cli.mistakes import explained
from varigraph.cli.options import Json
from varigraph.cli.terminal import progress_bars

if TYPE_CHECKING:
    from varigraph.distributed.dividing import By

NOTHING = "stopped; remove the folder and start again"


def partition(
    files: Annotated[
        list[Path],
        typer.Argument(
            metavar="FILE...",
            help="x.npy, edge_index.npy and further fields by their names; or Parquet tables of "
            "links (source, target, edge_prob) and of nodes (x, or x_0, x_1 and so on).",
            show_default=False,
        ),
    ],
    *,
    parts: Annotated[int, typer.Option(help="How many parts.", show_default=False)],
    out: Annotated[Path, typer.Option(help="Folder to write, new or empty.", show_default=False)],
    by: Annotated[
        str,
        typer.Option(
            help="metis (few links between parts; needs pymetis), range (nodes that follow each "
            "other) or hash; auto takes the first that there is."
        ),
    ] = "auto",
    as_json: Json = False,
) -> None:
    """Divide a graph into parts, for predictions by several processes or in little memory.

    Files are read in pieces: neither the links nor the features need fit in memory.
    """
    with explained(NOTHING, as_json=as_json), progress_bars() as progress:
        from varigraph.distributed import partition as divide

        made = divide(
            files, out, parts=parts, by=cast("By", by), progress=partial(progress, "partition")
        )
    record = {
        "folder": str(out),
        "parts": made.parts,
        "nodes": made.nodes,
        "links": made.links,
        "rows_exchanged": made.rows_exchanged,
    }
    if as_json:
        typer.echo(json.dumps(record))
        return
    typer.echo(
        f"{made.nodes:,} nodes and {made.links:,} links in {made.parts} parts; whenever neighbours "
        f"are summed, {made.rows_exchanged:,} rows travel between them\n{out}"
    )
