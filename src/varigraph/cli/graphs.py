"""``varigraph data`` and ``links``: the data sets, and how likely each link of a graph is."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

from varigraph.choices import DATASETS
from varigraph.cli.mistakes import STOPPED, explained
from varigraph.cli.options import Fresh, Json, Root, Seed, datasets
from varigraph.cli.terminal import cell, progress_bars, stdout
from varigraph.errors import OptionError
from varigraph.reporting.text_table import TextTable, terminal

if TYPE_CHECKING:
    from varigraph.links.link_probabilities import Odds
    from varigraph.links.methods import Method
    from varigraph.studies.dataset_facts import DatasetFacts
    from varigraph.studies.link_table import LinkRows
    from varigraph.studies.links import LinksOutcome

HEADER = ("name", "files", "nodes", "links", "features", "classes")


def data(
    name: Annotated[
        str | None,
        typer.Argument(
            metavar="NAME",
            help=f"One of {', '.join(DATASETS)}; all if left out.",
            autocompletion=datasets,
            show_default=False,
        ),
    ] = None,
    *,
    root: Root = None,
    as_json: Json = False,
) -> None:
    """List the data sets: how large they are, where they come from, whether their files are there.

    With a NAME: degrees, classes, features, and what noise of 2.5, 5 and 12 per cent means as a
    variance. Nothing is downloaded.
    """
    with explained(STOPPED, as_json=as_json):
        from varigraph.studies.dataset_facts import all_facts, dataset_facts, graph_facts

        if name is None:
            listed = all_facts(root=root)
            shown: Any = [facts.record() for facts in listed]
        else:
            listed = [dataset_facts(name, root=root)]
            more = graph_facts(listed[0].name, root=root) if listed[0].there else {}
            shown = {**listed[0].record(), **more}
    if as_json:
        typer.echo(json.dumps(shown))
    elif name is None:
        _print_all(listed)
    else:
        _print_one(listed[0], shown)


def _print_all(listed: list[DatasetFacts]) -> None:
    from varigraph.studies.dataset_facts import SPLIT

    rows = tuple(
        (facts.name, "there" if facts.there else "not there", *_numbers(facts)) for facts in listed
    )
    console = stdout()
    console.print(terminal(TextTable("Data sets", HEADER, rows, words=2)))
    console.print(f"split: {SPLIT}", soft_wrap=True)
    for facts in listed:
        line = f"{facts.name}: {facts.place}; from {facts.source}, {facts.licence}"
        console.print(line, soft_wrap=True)
    console.print(f"looked in: {', '.join(listed[-1].looked_in)}", soft_wrap=True)


def _print_one(facts: DatasetFacts, shown: dict[str, Any]) -> None:
    console = stdout()
    for line in _lines(facts):
        console.print(line, soft_wrap=True)
    if not facts.there:
        console.print("more is known once its files are there", soft_wrap=True)
        return
    degree = shown["degree"]
    console.print(
        f"links of a node: {degree['min']:g} to {degree['max']:g}, median {degree['median']:g}, "
        f"mean {degree['mean']:.2f}; {degree['without_links']} nodes have none",
        soft_wrap=True,
    )
    console.print(
        f"mean feature {shown['mean_feature']:.4g}; "
        f"{shown['nonzero_features']:.2%} of the features are not 0",
        soft_wrap=True,
    )
    console.print(terminal(_classes(shown)))
    console.print(terminal(_noise(shown)))


def _lines(facts: DatasetFacts) -> list[str]:
    from varigraph.studies.dataset_facts import SPLIT

    nodes, links, features, classes = _numbers(facts)
    looked = f"; looked in {', '.join(facts.looked_in)}" if not facts.there else ""
    return [
        f"{facts.name}: {nodes} nodes, {links} links, {features} features, {classes} classes",
        f"split: {SPLIT}",
        f"from {facts.source}, {facts.licence}",
        f"files: {facts.place}{looked}",
    ]


def _numbers(facts: DatasetFacts) -> tuple[str, str, str, str]:
    size = facts.size
    return f"{size.nodes:,}", f"{size.links:,}", f"{size.features:,}", f"{size.classes}"


def _classes(shown: dict[str, Any]) -> TextTable:
    rows = tuple(
        (each["name"], f"{each['nodes']:,}", f"{each['share']:.1%}")
        for each in shown["classes_of_nodes"]
    )
    return TextTable("Classes", ("class", "nodes", "share"), rows)


def _noise(shown: dict[str, Any]) -> TextTable:
    rows = tuple(
        (f"{each['percent']:g} %", f"{each['variance']:.4g}", f"{each['std']:.4g}")
        for each in shown["noise"]
    )
    header = ("noise", "variance", "standard deviation")
    return TextTable("Noise, in per cent of the mean feature", header, rows)


def links(
    source: Annotated[
        str,
        typer.Argument(
            metavar="DATASET|FILE",
            help=f"One of {', '.join(DATASETS)}, or a file with a link in each line: a table "
            "(.csv has a header), GraphML or STRING.",
        ),
    ],
    *,
    method: Annotated[
        str,
        typer.Option(help="seal; hadamard, ten times as fast; or auto, by the size of the graph."),
    ] = "auto",
    folds: Annotated[int, typer.Option(help="Models to train, each for its share of links.")] = 5,
    odds: Annotated[
        str, typer.Option(help="As if links and non-links were equally frequent, or by density.")
    ] = "balanced",
    seed: Seed = 0,
    score: Annotated[
        str | None,
        typer.Option(
            help="Column of the measured scores, by name or number from 0; none to leave them out.",
            show_default="the third of three, or known by its name",
        ),
    ] = None,
    ends: Annotated[
        str, typer.Option(help="Columns of the two ends, by names or numbers, with a comma.")
    ] = "0,1",
    scale: Annotated[
        float | None,
        typer.Option(help="Score of a certain link.", show_default="1, of STRING 1000"),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(help="Folder to write.", show_default="links/NAME-METHOD-seedSEED"),
    ] = None,
    root: Root = None,
    fresh: Fresh = False,
    as_json: Json = False,
) -> None:
    """Compute how likely each link of a graph is, judged from the rest of the graph.

    Measured scores are kept: links.csv has both, and begins with the links about which they
    disagree; without scores it begins with the least likely links.

    If it is interrupted, the same command goes on after the last finished fold.
    """
    with explained(as_json=as_json), progress_bars() as show:
        from varigraph.studies.config import in_hundredths
        from varigraph.studies.links import links_study, quality_record

        outcome = links_study(
            source,
            method=cast("Method", method),  # checked where all options are
            folds=folds,
            odds=cast("Odds", odds),
            seed=seed,
            score=None if score is None else False if score == "none" else _column(score),
            ends=_ends(ends),
            scale=scale,
            out=out,
            root=root,
            fresh=fresh,
            progress=in_hundredths(show, "links"),
        )
    if as_json:
        record = {**quality_record(outcome), "folder": str(outcome.folder)}
        typer.echo(json.dumps(record))
    else:
        _print_links(outcome)


def _column(text: str) -> str | int:
    return int(text) if text.isdecimal() else text


def _ends(text: str) -> tuple[str | int, str | int]:
    start, comma, end = text.partition(",")
    if not (start and comma and end):
        raise OptionError(f"--ends {text} are not two columns", "--ends from,to or --ends 0,1")
    return _column(start), _column(end)


#: Links that are named on the screen; the file has all.
NAMED = 5


def _print_links(outcome: LinksOutcome) -> None:
    from varigraph.reporting.tables import link_quality
    from varigraph.studies.link_table import APART

    console = stdout()
    console.print(f"{outcome.title}: quality at balanced odds", soft_wrap=True)
    console.print(link_quality(outcome.quality))
    far, links = outcome.rows.disagreeing, f"{len(outcome.rows):,} links"
    if far is None:
        about = f"the least likely of {links}"
    else:
        about = f"measured and computed are more than {APART:g} apart for {far:,} of {links}"
    console.print(f"{about}:", soft_wrap=True)
    console.print(terminal(_first_links(outcome.rows)))
    for note in outcome.notes:
        console.print(note, soft_wrap=True)
    console.print(str(outcome.folder / "links.csv"), soft_wrap=True)


def _first_links(rows: LinkRows) -> TextTable:
    shown = range(min(NAMED, len(rows)))
    columns = {"measured": rows.measured, "computed": rows.computed}
    numbers = {name: values for name, values in columns.items() if values is not None}
    body = tuple(
        (
            *(cell(end) for end in rows.ends[row]),
            *(f"{float(values[row]):.3f}" for values in numbers.values()),
        )
        for row in shown
    )
    return TextTable("", ("from", "to", *numbers), body, words=2)
