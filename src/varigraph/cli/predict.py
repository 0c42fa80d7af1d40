"""``varigraph predict``: error bars for the answers of your own network."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from contextlib import redirect_stdout
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from varigraph.cli.mistakes import STOPPED, explained
from varigraph.cli.options import (
    NETWORK,
    OUTPUT,
    Arguments,
    CalibratorFile,
    DrawnNoise,
    Dropout,
    ForwardName,
    Graph,
    Json,
    Level,
    Links,
    Memory,
    MethodName,
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
from varigraph.cli.partition import MadeOf, predict_in_parts, refuse_of_whole
from varigraph.cli.terminal import cell, progress_bars, stdout
from varigraph.errors import OptionError
from varigraph.reporting.text_table import TextTable, terminal

if TYPE_CHECKING:
    from varigraph.studies.own_model.answers import Answer


def predict(
    model: Model,
    graph: Graph = None,
    *,
    weights: Weights = None,
    arguments: Arguments = None,
    forward: ForwardName = None,
    method: MethodName = "auto",
    task: Task = "classification",
    samples: Samples = None,
    dropout: Dropout = None,
    sources: Sources = None,
    seed: OwnSeed = None,
    memory: Memory = "half",
    noise_var: NoiseVar = None,
    noise: DrawnNoise = None,
    links: Links = None,
    calibrator: CalibratorFile = None,
    nodes: Nodes = None,
    interval: Level = None,
    parts: Annotated[
        Path | None,
        typer.Option(
            "--partition",
            help="Folder of a graph in parts, in the place of GRAPH; each process of torchrun "
            "answers for some.",
            show_default="none",
            rich_help_panel=NETWORK,
        ),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            help="Table to write, .csv or .parquet; of a graph in parts, a folder.",
            show_default="none",
            rich_help_panel=OUTPUT,
        ),
    ] = None,
    top: Annotated[
        int,
        typer.Option(help="Least trusted nodes to show.", min=0, rich_help_panel=OUTPUT),
    ] = 10,
    root: Root = None,
    as_json: Json = False,
) -> None:
    """Predict with error bars: a trained network and a graph in, a table of nodes out.

    The table has one row for each node. Its columns: node; name, where the graph has node_names;
    predicted, confidence and confidence_std (one standard deviation); plain, what the network by
    itself gives that class; trust; the variance summed over classes, as total = features + links +
    weights + interactions; then all of it by class, as mean_0, total_0, features_0 and so on. In
    regression mean and std take the place of the first three. Sampled answers have standard errors
    as well: mean_se_0, total_se_0.

    A run needs no GRAPH: its own network answers for its own graph.
    """
    if parts is not None:
        refuse_of_whole(graph, calibrator, nodes, interval, noise, noise_var)
        predict_in_parts(
            model,
            parts,
            out,
            made_of=MadeOf(weights, arguments, forward),
            method=method,
            task=task,
            samples=samples,
            dropout=dropout,
            sources=sources,
            seed=seed,
            memory=memory,
            links=links,
            as_json=as_json,
        )
        return
    with (
        explained(STOPPED, as_json=as_json),
        progress_bars() as progress,
        redirect_stdout(sys.stderr),
    ):
        from varigraph.prediction.table import check_table_file, table_columns, write_table
        from varigraph.studies.own_model.answers import answered
        from varigraph.studies.own_model.subject import subject

        if interval is not None and not 0 < interval < 1:
            raise OptionError(f"--interval {interval:g} is no share", "--interval 0.9")
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
        found = answered(
            asked,
            nodes=nodes,
            method=method,
            links=links,
            sources=None if sources is None else tuple(sources.split(",")),
            samples=samples,
            task=task,
            dropout=dropout,
            memory=memory,
            calibrator=calibrator,
            progress=partial(progress, "predict"),
        )
        if out is not None:
            write_table(out, table_columns(found.prediction, interval))
    if as_json:
        file = None if out is None else str(out)
        typer.echo(json.dumps({**found.record(), "file": file}))
    else:
        _print(found, out, top, interval)


NOISE_ONLY = (
    "intervals cover noise and dropout, not errors of the network itself: for those that "
    "hold the truth, varigraph calibrate and --calibrator"
)


def _print(found: Answer, out: Path | None, top: int, level: float | None) -> None:
    console = stdout()
    for line in headline(found):
        console.print(line, soft_wrap=True)
    if out is None and top > 0:
        console.print()
        table = least_trusted(found, top, level)
        console.print(terminal(table))
        for note in table.notes:
            console.print(f"remedy if the cause is {note}", soft_wrap=True)
    for note in found.notes:
        console.print(f"note: {note}", soft_wrap=True)
    if level is not None and found.prediction.calibrator is None:
        console.print(f"note: {NOISE_ONLY}", soft_wrap=True)
    if out is not None:
        console.print(str(out), soft_wrap=True)


def headline(found: Answer) -> list[str]:
    """What was done, and where the variance comes from.

    Args:
        found: an answer.
    """
    (method, why), shares = found.method, found.shares
    record = found.record()
    what = {"classification": "classes", "multilabel": "labels"}.get(
        found.prediction.task, "outputs"
    )
    size = f"{_counted(record['nodes'])}, "
    size += "1 value each" if record["outputs"] == 1 else f"{record['outputs']} {what}"
    done = f"{found.subject.title}: {size}; {method}{f' ({why})' if why else ''}, "
    parts = (
        "none of it"
        if shares is None
        else ", ".join(f"{part} {share:.0%}" for part, share in shares.items())
    )
    return [
        f"{done}{found.seconds:.1f} s",
        f"mean variance {found.variance['total']:.3g}: {parts}",
    ]


def least_trusted(found: Answer, top: int, level: float | None = None) -> TextTable:
    """The nodes whose answers can be trusted least, the worst first, and what would help.

    Args:
        found: an answer.
        top: how many of them.
        level: share that their intervals are to hold; none are shown if left out.
    """
    doubtful, named = found.prediction.least_trusted(top), found.prediction.rows.names is not None
    single = found.prediction.task == "regression" and found.prediction.mean.shape[1] == 1
    held = {} if level is None else _held(found, level)
    rows = tuple(
        (
            cell(each.name) if named else f"{each.node}",
            "value" if single else cell(each.answer),
            f"{each.value:.3g} ± {each.std:.2g}",
            *((held[each.node],) if held else ()),
            "" if each.plain is None else f"{each.plain:.3g}",
            f"{each.cause} {each.share:.0%}",
        )
        for each in doubtful
    )
    remedies = {each.cause: each.remedy for each in doubtful}
    notes = tuple(f"{cause}: {remedy}" for cause, remedy in remedies.items())
    title = f"{len(rows)} least trusted of {_counted(len(found.nodes))}"
    in_sets = found.prediction.task == "classification" and found.prediction.calibrator is not None
    share = (f"{level:.0%} {'set' if in_sets else 'interval'}",) if held else ()
    header = ("node", "answer", "", *share, "plain network", "main cause")
    return TextTable(title, header, rows, words=2, notes=notes)


def _counted(nodes: int) -> str:
    return f"{nodes:,} node" if nodes == 1 else f"{nodes:,} nodes"


def _held(found: Answer, level: float) -> dict[int, str]:
    """By node: the classes that a calibrated answer may have, else the interval of what is told."""
    from varigraph.prediction.table import table_columns

    columns = table_columns(found.prediction, level)
    if "classes" in columns:
        texts = [_set(names) for names in found.prediction.class_sets(level)]
    elif "low" in columns:
        texts = list(map(_range, columns["low"], columns["high"]))
    elif "predicted" in columns:
        told = list(enumerate(columns["predicted"]))
        texts = [_range(columns[f"low_{k}"][row], columns[f"high_{k}"][row]) for row, k in told]
    else:
        return {}  # several values: the file has them
    return dict(zip(found.nodes, texts, strict=True))


def _set(names: Sequence[str]) -> str:
    return cell(names[0], width=22) if len(names) == 1 else f"{len(names) or 'no'} classes"


def _range(low: float | str, high: float | str) -> str:
    return f"{float(low):.3g} to {float(high):.3g}"
