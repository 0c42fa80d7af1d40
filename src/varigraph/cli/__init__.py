"""The command line: ``varigraph run``, ``audit``, ``links``, ``report`` and ``study``."""

from __future__ import annotations

from typing import Annotated

import typer

import varigraph
from varigraph.cli.audit import audit
from varigraph.cli.links import links
from varigraph.cli.report import report
from varigraph.cli.run import run
from varigraph.cli.study import study

__all__ = ["app"]

app = typer.Typer(
    help="Error bars for trained graph neural networks.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_show_locals=False,
)
app.command(epilog="Example: varigraph run cora --seed 1 --out runs/second")(run)
app.command(epilog="Example: varigraph audit --run runs/cora-seed0 --method diagonal")(audit)
app.command(epilog="Example: varigraph links cora --method hadamard")(links)
app.command(epilog="Example: varigraph report runs/cora-seed0 --noise 5")(report)
app.add_typer(study, name="study")


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"varigraph {varigraph.__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_print_version, is_eager=True, help="Print the version."
        ),
    ] = False,
) -> None:
    """Error bars for trained graph neural networks."""
