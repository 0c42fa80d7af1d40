"""The command line: ``varigraph predict``, ``check``, ``run`` and all other verbs."""

from __future__ import annotations

from typing import Annotated

import typer

import varigraph
from varigraph.cli.audit import audit
from varigraph.cli.calibrate import calibrate
from varigraph.cli.check import check
from varigraph.cli.explain import explain
from varigraph.cli.graphs import data, links
from varigraph.cli.mistakes import Verbs
from varigraph.cli.partition import partition
from varigraph.cli.predict import predict
from varigraph.cli.report import report
from varigraph.cli.runs import bench, run
from varigraph.cli.study import study

__all__ = ["app"]

YOURS, GRAPHS, PAPER = "Your own network", "Graphs", "The paper's network"
EXITS = (
    "Exit codes: 0 fine; 1 check found layers or functions without a rule; "
    "2 a mistake, explained on standard error, or as JSON under --json; 130 interrupted."
)
SAGE = (
    "varigraph predict torch_geometric.nn:GraphSAGE cora --arguments "
    '\'{"in_channels": 1433, "hidden_channels": 64, "num_layers": 2, "out_channels": 7}\' '
    "--weights sage.safetensors --noise-var 0.0001 --out nodes.csv"
)

app = typer.Typer(
    cls=Verbs,
    help="Error bars for trained graph neural networks.",
    epilog=f"{EXITS}\n\nExample: varigraph predict networks.py:build cora --weights weights.pt",
    no_args_is_help=True,
    add_completion=True,
    rich_markup_mode="markdown",  # paragraphs of a docstring fill the lines
    pretty_exceptions_show_locals=False,
)


app.command(rich_help_panel=YOURS, epilog=f"Example: {SAGE}")(predict)
app.command(
    rich_help_panel=YOURS,
    epilog="Example: varigraph explain networks.py:build cora --weights weights.pt --node 7",
)(explain)
app.command(
    rich_help_panel=YOURS,
    epilog="Example: varigraph calibrate networks.py:build cora --weights weights.pt --nodes val",
)(calibrate)
app.command(
    rich_help_panel=YOURS,
    epilog="Example: varigraph audit networks.py:build cora --weights weights.pt --noise-var 0.01",
)(audit)
app.command(
    rich_help_panel=YOURS,
    epilog="Example: varigraph report networks.py:build cora --weights weights.pt --noise-var 0.01",
)(report)
app.command(rich_help_panel=YOURS, epilog="Example: varigraph check networks.py:build cora")(check)
app.command(rich_help_panel=GRAPHS, epilog="Example: varigraph data cora")(data)
app.command(rich_help_panel=GRAPHS, epilog="Example: varigraph links cora --method hadamard")(links)
app.command(
    rich_help_panel=GRAPHS,
    epilog="Example: varigraph partition nodes.parquet links.parquet --parts 8 --out parts",
)(partition)
app.command(rich_help_panel=PAPER, epilog="Example: varigraph run cora --seed 1 --out runs/second")(
    run
)
app.command(rich_help_panel=PAPER, epilog="Example: varigraph bench pubmed --masks 10")(bench)
app.add_typer(
    study, name="study", rich_help_panel=PAPER, epilog="Example: varigraph study paper --quick"
)


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
