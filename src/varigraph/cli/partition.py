"""``varigraph partition``: a large graph divided into parts that processes work on."""

from __future__ import annotations

import json
import os
import sys
from contextlib import redirect_stdout
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple, cast

import typer

from varigraph.cli.mistakes import STOPPED, explained
from varigraph.cli.options import Json
from varigraph.cli.terminal import progress_bars
from varigraph.errors import OptionError

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


class MadeOf(NamedTuple):
    """What a network is made of, beside its class."""

    weights: Path | None
    arguments: str | None
    forward: str | None


def refuse_of_whole(*given: object) -> None:
    """Exits where options are given that are about a graph in one piece."""
    with explained(STOPPED):
        if any(value is not None for value in given):
            raise OptionError(
                "--partition is given with GRAPH, --calibrator, --nodes, --interval, --noise or "
                "--noise-var, which are about a graph in one piece",
                "leave these out; noise belongs into the graph before it is divided, as x_var",
            )


def predict_in_parts(
    model: str,
    parts: Path,
    out: Path | None,
    *,
    made_of: MadeOf,
    method: str,
    seed: int | None,
    samples: int | None,
    sources: str | None,
    links: str | None,
    as_json: bool,
    **options: Any,
) -> None:
    """What ``varigraph predict --partition`` does, in each process that torchrun starts.

    Args:
        model: as for any prediction, as all that is not named here.
        parts: folder of the graph.
        out: folder of the answer.
        made_of: the network's weights and arguments, and how it is called.
        method: ``"auto"`` is sampled.
        seed: 0 if left out.
        samples: 100 if left out.
        sources: with commas.
        links: ``"removed"`` if left out.
        as_json: whether to print JSON.
        options: further ones of :func:`varigraph.distributed.predict`.
    """
    first = os.environ.get("RANK", "0") == "0"
    with (
        explained(STOPPED, as_json=as_json),
        progress_bars() as progress,
        redirect_stdout(sys.stderr),
    ):
        from varigraph.distributed import predict
        from varigraph.studies.own_model.subject import subject

        if out is None:
            raise OptionError("--partition needs a folder for the answer", "--out answer")
        if Path(model).is_dir():
            raise OptionError(
                f"{model} is a run, which has a graph of its own", "leave --partition out"
            )
        asked = subject(model, **made_of._asdict(), seed=seed)
        made = predict(
            asked.model,
            parts,
            out,
            method=cast(Any, "sampled" if method == "auto" else method),
            links=cast(Any, links or "removed"),
            sources=None if sources is None else tuple(sources.split(",")),
            samples=100 if samples is None else samples,
            seed=seed or 0,
            forward=asked.forward,
            progress=partial(progress, "predict") if first else None,
            **options,
        )
    if not first:
        return
    if as_json:
        record = {
            "folder": str(out),
            "nodes": made.nodes,
            "parts": made.parts,
            "method": made.method,
        }
        typer.echo(json.dumps({**record, "bytes_sent": made.bytes_sent}))
        return
    for note in asked.notes:
        typer.echo(f"note: {note}")
    typer.echo(f"{made.nodes:,} nodes in {made.parts} parts; {made.method}\n{out}")
