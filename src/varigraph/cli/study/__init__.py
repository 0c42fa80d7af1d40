"""``varigraph study``: experiments of many runs."""

from __future__ import annotations

import typer

from varigraph.cli.study.paper import paper
from varigraph.cli.study.sensitivity import sensitivity

__all__ = ["study"]

study = typer.Typer(
    help="Experiments of many runs, each in one folder.",
    no_args_is_help=True,
)
study.command(epilog="Example: varigraph study paper --table 4 --seeds 2 --out runs/cora-table")(
    paper
)
study.command(epilog="Example: varigraph study sensitivity cora --links hadamard")(sensitivity)
