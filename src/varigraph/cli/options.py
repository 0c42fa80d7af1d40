"""Options that several commands have, each defined once."""

from __future__ import annotations

from glob import glob
from pathlib import Path
from typing import Annotated, get_args

import typer

from varigraph.choices import DATASETS, Method, Reading
from varigraph.choices import Task as Tasks

NETWORK, METHOD, NOISE, OUTPUT = "Network", "Method", "Noise and links", "Output"


def datasets(incomplete: str) -> list[str]:
    """Names of data sets that begin with this text."""
    return [name for name in DATASETS if name.startswith(incomplete.lower())]


def graphs(incomplete: str) -> list[str]:
    """Names of data sets and files that begin with this text."""
    return [*datasets(incomplete), *sorted(glob(f"{incomplete}*"))]


def methods(incomplete: str) -> list[str]:
    """Methods of prediction that begin with this text."""
    return [name for name in get_args(Method) if name.startswith(incomplete)]


def readings(incomplete: str) -> list[str]:
    """Readings of a link's probability that begin with this text."""
    return [name for name in get_args(Reading) if name.startswith(incomplete)]


def tasks(incomplete: str) -> list[str]:
    """Tasks that begin with this text."""
    return [name for name in get_args(Tasks) if name.startswith(incomplete)]


Dataset = Annotated[
    str, typer.Argument(help=f"One of {', '.join(DATASETS)}.", autocompletion=datasets)
]
Model = Annotated[
    str,
    typer.Argument(
        metavar="MODEL",
        help="package.module:factory or path/to/file.py:factory, a class or function of your own "
        "Python that makes the network; or the folder of a run.",
        show_default=False,
    ),
]
Graph = Annotated[
    str | None,
    typer.Argument(
        metavar="GRAPH",
        help=f"One of {', '.join(DATASETS)}; a folder with nodes.csv and links.csv; a .pt file of "
        "a torch_geometric Data or a dict of tensors; or an .npz file with x, edge_index and, if "
        "known, x_var, edge_prob, y, node_names, edge_attr, edge_weight, pos and their variances "
        "(edge_attr_var and so on). A run has its own.",
        autocompletion=graphs,
        show_default=False,
    ),
]
Weights = Annotated[
    Path | None,
    typer.Option(
        help="The network's weights: .safetensors, or a state dict by torch.save. Code in it is "
        "never run.",
        show_default="what the factory makes",
        rich_help_panel=NETWORK,
    ),
]
Arguments = Annotated[
    str | None,
    typer.Option(
        help="Arguments of the factory as JSON.", show_default="none", rich_help_panel=NETWORK
    ),
]
ForwardName = Annotated[
    str | None,
    typer.Option(
        "--forward",
        help="Function(model, x, data) that calls the network, named as MODEL is.",
        show_default="model(x, edge_index)",
        rich_help_panel=NETWORK,
    ),
]
Task = Annotated[
    str,
    typer.Option(
        help="classification (logits, softmax or log_softmax), binary (one logit), multilabel or "
        "regression.",
        autocompletion=tasks,
        rich_help_panel=METHOD,
    ),
]
Memory = Annotated[
    str,
    typer.Option(
        help="Bound on what is computed at once: 4GiB; half of the RAM, or of a GPU's free memory.",
        rich_help_panel=METHOD,
    ),
]
MethodName = Annotated[
    str,
    typer.Option(
        "--method",
        help="auto, first-order, covariance, diagonal or sampled.",
        autocompletion=methods,
        rich_help_panel=METHOD,
    ),
]
Samples = Annotated[
    int | None,
    typer.Option(
        help="Dropout masks, or draws; 0 takes the weights as certain.",
        show_default="100, or that of the run",
        rich_help_panel=METHOD,
    ),
]
Dropout = Annotated[
    float | None,
    typer.Option(
        help="Rate of dropout to inject into a network that has none.",
        show_default="none",
        rich_help_panel=METHOD,
    ),
]
Sources = Annotated[
    str | None,
    typer.Option(
        help="What to consider: some of features, links and weights, with commas.",
        show_default="all",
        rich_help_panel=METHOD,
    ),
]
OwnSeed = Annotated[
    int | None,
    typer.Option(
        "--seed",
        help="Seed of everything that is drawn.",
        show_default="0, or that of the run",
        rich_help_panel=METHOD,
    ),
]
CalibratorFile = Annotated[
    Path | None,
    typer.Option(
        "--calibrator",
        help="What varigraph calibrate has written: lets confidences and error bars hold.",
        show_default="none",
        rich_help_panel=METHOD,
    ),
]
Level = Annotated[
    float | None,
    typer.Option(
        "--interval",
        help="Share that intervals are to hold, such as 0.9: adds low and high and, where a "
        "calibrator makes sets of classes hold the truth, classes.",
        show_default="none",
        rich_help_panel=OUTPUT,
    ),
]
NoiseVar = Annotated[
    float | None,
    typer.Option(
        help="Variance of the noise that the features have, where the graph has no x_var.",
        show_default="exact features",
        rich_help_panel=NOISE,
    ),
]
DrawnNoise = Annotated[
    float | None,
    typer.Option(
        "--noise",
        help="For experiments: noise to draw and add, in per cent of the mean feature.",
        show_default="none, or the highest of the run",
        rich_help_panel=NOISE,
    ),
]
Links = Annotated[
    str | None,
    typer.Option(
        help="Links with an edge_prob may be missing from the graph (removed), have their "
        "messages silenced (bernoulli), or weigh them (weight).",
        autocompletion=readings,
        show_default="removed, or that of the run",
        rich_help_panel=NOISE,
    ),
]
NODES = (
    "Numbers from 0 or, where there are any, names, with commas; a mask of the graph, such as "
    "test; or a file with one node a line."
)
Nodes = Annotated[str | None, typer.Option(help=NODES, show_default="all", rich_help_panel=OUTPUT)]
Epochs = Annotated[int, typer.Option(help="Passes over the training nodes.")]
LinkReading = Annotated[
    str,
    typer.Option(
        help="Uncertain links have messages silenced by coins (bernoulli), weigh them (weight), or "
        "may be missing from the graph (removed).",
        autocompletion=readings,
    ),
]
Seed = Annotated[int, typer.Option(help="Seed of everything that is drawn.")]
Root = Annotated[
    Path | None, typer.Option(help="Folder of the data sets.", show_default="$VARIGRAPH_DATA")
]
Fresh = Annotated[
    bool, typer.Option("--fresh", help="Replace what an earlier call wrote to the folder.")
]
Json = Annotated[bool, typer.Option("--json", help="Print the results as JSON.")]
