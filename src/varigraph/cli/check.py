"""``varigraph check``: which layers and functions of a network have a rule."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable
from contextlib import redirect_stdout
from typing import TYPE_CHECKING, cast

import typer
from rich.box import SIMPLE_HEAD
from rich.table import Table

from varigraph.choices import Task as Tasks
from varigraph.cli.mistakes import STOPPED, explained
from varigraph.cli.options import (
    Arguments,
    ForwardName,
    Graph,
    Json,
    Memory,
    Model,
    Root,
    Task,
    Weights,
)
from varigraph.cli.terminal import cell, progress_bars, stdout

if TYPE_CHECKING:
    from varigraph.studies.own_model.rule_check import RuleCheck, RuleRow

#: The exit code where something would be sampled.
SAMPLED = 1
#: Characters of a note that are shown.
LONGEST = 400
HEADER = ("layer", "class", "rule", "exactness", "note")


def check(
    model: Model,
    graph: Graph = None,
    *,
    weights: Weights = None,
    arguments: Arguments = None,
    forward: ForwardName = None,
    task: Task = "classification",
    memory: Memory = "half",
    root: Root = None,
    as_json: Json = False,
) -> None:
    """Say which rule each layer of a network has, how exact it is, and which method follows.

    With a GRAPH the network is run once, and the functions that its own code calls on the features
    are listed as well.

    Exit code 0: everything has a rule. 1: --method auto would sample, because something has no
    rule, has no first-order response or does not fit in memory. 2: a mistake, explained on
    standard error.
    """
    with (
        explained(STOPPED, as_json=as_json),
        progress_bars() as progress,
        redirect_stdout(sys.stderr),
    ):
        from varigraph.studies.own_model.rule_check import rule_check
        from varigraph.studies.own_model.subject import subject

        asked = subject(
            model,
            graph,
            weights=weights,
            arguments=arguments,
            forward=forward,
            root=root,
            progress=progress,
        )
        found = rule_check(
            asked.model,
            asked.graph,
            forward=asked.forward,
            task=cast(Tasks, task),  # checked where all options are
            memory=memory,
        )
    if as_json:
        typer.echo(json.dumps({"title": asked.title, **found.record()}))
    else:
        _print(asked.title, found)
    if not found.covered or found.method == "sampled":
        raise typer.Exit(SAMPLED)


def _print(title: str, found: RuleCheck) -> None:
    console = stdout()
    console.print(title, soft_wrap=True)
    console.print(_table(found.layers, HEADER))
    if found.functions:
        console.print(_table(found.functions, ("function", *HEADER[1:])))
    rows = (*found.layers, *(found.functions or ()))
    missing = sum(not row.covered for row in rows)
    derived = any(row.derived for row in rows)
    verdict = "everything can be followed" if derived else "everything has a rule"
    verdict = f"{missing} of {len(rows)} have no rule" if missing else verdict
    console.print(f"{verdict}; auto takes {found.method}: {found.reason}", soft_wrap=True)


def _table(rows: Iterable[RuleRow], header: tuple[str, ...]) -> Table:
    shown = Table(*header, box=SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False)
    for row in rows:
        words = (row.where, row.kind, row.rule, row.exactness, row.note)
        shown.add_row(*(cell(word, width=LONGEST) for word in words))
    return shown
