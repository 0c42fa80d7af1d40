"""Options that several commands have, each defined once."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from varigraph.data import DATASETS

Dataset = Annotated[str, typer.Argument(help=f"One of {', '.join(DATASETS)}.")]
Epochs = Annotated[int, typer.Option(help="Passes over the training nodes.")]
LinkReading = Annotated[
    str, typer.Option(help="Uncertain links are coins (bernoulli) or weights (weight).")
]
Seed = Annotated[int, typer.Option(help="Seed of everything that is drawn.")]
Root = Annotated[
    Path | None, typer.Option(help="Folder of the data sets.", show_default="$VARIGRAPH_DATA")
]
Fresh = Annotated[
    bool, typer.Option("--fresh", help="Replace what an earlier call wrote to the folder.")
]
Json = Annotated[bool, typer.Option("--json", help="Print the results as JSON.")]
