"""``varigraph study paper``: all tables of the paper, from nothing or from where it stopped."""

from __future__ import annotations

import os
import platform
import shutil
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import get_args

from varigraph.errors import OptionError
from varigraph.files import locked, write_json, write_text
from varigraph.reporting.text_table import TextTable, latex, latex_document, markdown
from varigraph.studies.comparison.cells import SLOW, TABLES, Cell, cells_of, tables_of
from varigraph.studies.comparison.methods import METHODS, Method
from varigraph.studies.comparison.own_method import own_method
from varigraph.studies.comparison.pieces import Piece, unfinished
from varigraph.studies.comparison.protocols import CHOSEN, Options, Protocol, recipe
from varigraph.studies.comparison.results import Results
from varigraph.studies.comparison.tables import tables
from varigraph.studies.comparison.workers import Clock, cost, make_pieces
from varigraph.studies.config import versions
from varigraph.studies.defaults import PAPER_FOLDER
from varigraph.studies.folder import CONFIG, claim, read_config
from varigraph.studies.paper import DATA


@dataclass(frozen=True)
class Step:
    """A piece that was made.

    Args:
        name: of the piece.
        seconds: it took.
        done: pieces made by now.
        total: pieces to make.
        seconds_left: for the others, as far as one can tell.
    """

    name: str
    seconds: float
    done: int
    total: int
    seconds_left: float


@dataclass(frozen=True)
class Outcome:
    """What a study found.

    Args:
        folder: where everything was written.
        tables: by number, each of one part or several.
        results: every number.
        made: pieces that were made by this call; the others were found.
        text: all tables and what a reader must know about them, in Markdown.
    """

    folder: Path
    tables: dict[int, list[TextTable]]
    results: Results
    made: tuple[str, ...]
    text: str = field(repr=False)


def paper_study(
    wanted: Sequence[int] = (),
    *,
    seeds: int = 5,
    samples: int = 100,
    links: str | None = "hadamard",
    quick: bool = False,
    resume: bool = False,
    fresh: bool = False,
    out: str | Path = PAPER_FOLDER,
    root: str | Path | None = None,
    jobs: int = 1,
    methods: Sequence[Method] = METHODS,
    own: Sequence[str] = (),
    progress: Callable[[Step], None] | None = None,
) -> Outcome:
    """Make the tables of the paper, with every method at every level of noise.

    A study that was stopped, in whatever way, goes on where it was: nothing that was finished is
    made again, and the numbers are those of a study that was never stopped.

    Args:
        wanted: numbers of tables, 1 to 6; none for all.
        seeds: how many; methods that are slow get fewer on large data sets.
        samples: draws per prediction.
        links: the method that computes the probabilities of links; None takes all as certain.
        quick: Cora only, hardly trained, to see that everything works.
        resume: go on with the study that the folder holds. It may ask for more tables or seeds.
        fresh: replace it.
        out: the folder.
        root: folder that holds the data sets.
        jobs: processes at work. A script that asks for more than one starts its own work under
            ``if __name__ == "__main__":``.
        methods: to compare.
        own: classes of the user's own to compare with them, ``mine.py:Mine``; see
            :func:`~varigraph.studies.comparison.own_method.own_method`.
        progress: called after each piece.

    Raises:
        OptionError: if an option makes no sense, or the folder holds something else or is in use.
    """
    if jobs < 1:
        raise OptionError(f"jobs is {jobs}", "give at least one process: jobs=1")
    methods = (*methods, *map(own_method, own))
    numbers = tables_of(wanted, quick=quick)
    cells = cells_of(numbers, methods, seeds=seeds)
    options = Options(Path(out), samples, links, quick, Path(root) if root is not None else None)
    with claimed_study(options, resume=resume, fresh=fresh):
        made = _make(cells, options, jobs, progress)
        results = Results(tuple(record for cell in cells if (record := cell.record(options))))
        datasets = [name for name in DATA if not (quick and name in SLOW)]
        found = tables(numbers, results, datasets, root=options.root)
        text = document(
            [part for parts in found.values() for part in parts],
            options,
            methods,
            datasets=datasets,
            seeds=seeds,
            seconds=_seconds(cells, options),
        )
        outcome = Outcome(options.folder, found, results, made, text)
        _write(outcome)
    return outcome


def _make(
    cells: Sequence[Cell], options: Options, jobs: int, progress: Callable[[Step], None] | None
) -> tuple[str, ...]:
    # The user's own methods come first: what is wrong with them shows in seconds.
    ordered = sorted(cells, key=lambda cell: (bool(cell.method.made_by), cost(cell)), reverse=True)
    todo = unfinished(ordered, options)
    clock, made = Clock(todo.values(), jobs=jobs), list[str]()

    def report_piece(piece: Piece, seconds: float) -> None:
        made.append(piece.name)
        clock.made(piece, seconds)
        if progress is not None:
            progress(Step(piece.name, seconds, clock.done, clock.total, clock.seconds_left))

    make_pieces(todo, options, jobs=min(jobs, max(len(todo), 1)), made=report_piece)
    return tuple(made)


def _seconds(cells: Sequence[Cell], options: Options) -> float:
    """What all pieces took, those of earlier calls included."""
    needed = {piece.name: piece for cell in cells for piece in (cell, *cell.prerequisites(options))}
    return sum(p.seconds(options) for p in needed.values() if p.finished(options))


def _write(outcome: Outcome) -> None:
    folder = outcome.folder
    write_json(folder / "results.json", results(outcome))
    write_text(folder / "results.csv", outcome.results.to_csv())
    for number, parts in outcome.tables.items():
        write_text(folder / f"table-{number}.md", "\n".join(map(markdown, parts)))
        write_text(folder / f"table-{number}.tex", "\n".join(map(latex, parts)))
    every = [part for parts in outcome.tables.values() for part in parts]
    write_text(folder / "tables.tex", latex_document(every))
    write_text(folder / "tables.md", outcome.text)


def results(outcome: Outcome) -> dict[str, object]:
    """What a study found, as a JSON object.

    Args:
        outcome: of :func:`paper_study`.
    """
    return {
        "cells": list(outcome.results.cells),
        "tables": {
            str(number): [
                {"title": part.title, "header": part.header, "rows": part.rows, "notes": part.notes}
                for part in parts
            ]
            for number, parts in outcome.tables.items()
        },
    }


_PROTOCOLS = (
    "**held-out**: 70 % of the nodes for training, 10 % for validation, 20 % for testing; the same "
    "split and the same draw of noise for every method; all variances are of class probabilities. "
    "Claims rest on this one.",
    "**paper**: as its authors ran it, read in their public code. 300, 30 and 100 nodes of each "
    "class; on Cora the class label is appended to the features, which is a leak; the output "
    "variance adds a variance of logits (aleatoric) to one of class probabilities (epistemic). "
    "Rows called *printed* are the paper's own.",
)
_KNOWN = (
    "The paper says 70/10/20 nodes and layers of 64 and 32, then 12 and 8; its code has "
    "300/30/100 per class, layers of 48 and 48 and one dense layer. The network here is the one in "
    "the paper.",
    "The paper's link probabilities come from a model that was trained on the links it judges, "
    "without calibration. Ours are judged by models that have not seen them.",
    "The paper's BGCN was run with dropout off and a graph learned from all true labels.",
    "How the label was put among Cora's features is not known in every detail. Three readings were "
    "tried: as one more word of a row that sums to 1 (taken here), as a 1 beside such a row, and "
    "among words that are 0 or 1. None falls as steeply under noise as the paper's table 2.",
)


def document(
    parts: Iterable[TextTable],
    options: Options,
    methods: Sequence[Method],
    *,
    datasets: Sequence[str],
    seeds: int,
    seconds: float,
) -> str:
    """All tables in Markdown, after what a reader must know about them.

    Args:
        parts: the tables.
        options: of the comparison.
        methods: that were compared.
        datasets: that they were compared on.
        seeds: how many were asked for.
        seconds: of processor time, all processes together.
    """
    parts = list(parts)
    return "\n".join(
        [
            "# The paper's tables\n",
            f"Written by `varigraph study paper`.{_left_out(parts)}\n",
            *_points(_PROTOCOLS),
            *_points(_KNOWN),
            "Methods:\n",
            *_points(f"`{m.name}`: {m.about}" for m in methods if m.protocol == "held-out"),
            "Settings:\n",
            *_points(_settings(options, datasets, seeds, seconds)),
            *map(markdown, parts),
        ]
    )


def _left_out(parts: Sequence[TextTable]) -> str:
    """A sentence about the tables that were not asked for."""
    without = [str(n) for n in TABLES if not any(p.title.startswith(f"Table {n}.") for p in parts)]
    return f" Not in this run: table {', '.join(without)}." if without else ""


def _settings(
    options: Options, datasets: Sequence[str], seeds: int, seconds: float
) -> Iterable[str]:
    yield f"Seeds: {seeds}; slow methods have fewer on large graphs, the tables say how many."
    yield f"{options.samples} draws where a method draws."
    links = f"probabilities by {options.links}, five folds" if options.links else "all are certain"
    yield f"Links: {links}."
    for protocol in get_args(Protocol):
        for dataset in datasets:
            how = recipe(protocol, dataset, quick=options.quick)
            yield f"The network is trained on {dataset}, {protocol}, for {how}."
    for dataset in datasets:
        yield (
            f"The network of noise-aware and noise-blind on {dataset}: {CHOSEN[dataset]}, "
            "all links certain. It was chosen on validation nodes "
            "(docs/training.md), and noise-aware trains it for each level of noise anew, on clean "
            "features, knowing the variance of the noise to come."
        )
    if options.quick:
        yield "A quick look: the networks are hardly trained, so the figures mean nothing."
    made = ", ".join(f"{name} {version}" for name, version in versions().items())
    yield f"{platform.machine()}, {os.cpu_count()} cores, one thread for each process; {made}."
    yield (
        f"{seconds:,.0f} seconds of processor time, all processes together: "
        f"{seconds / 120:.0f} minutes on two cores."
    )


def _points(sentences: Iterable[str]) -> list[str]:
    return [*(f"- {sentence}" for sentence in sentences), ""]


#: What a comparison writes; nothing else is ever removed.
FOLDERS = ("cells", "networks", "links")
FILES = ("results.json", "results.csv", "tables.md", "tables.tex", "table-*.md", "table-*.tex")


@contextmanager
def claimed_study(options: Options, *, resume: bool, fresh: bool) -> Iterator[None]:
    """Within it, a folder is that of one comparison, new or taken up.

    Args:
        options: of the comparison, and its folder.
        resume: go on with what the folder holds.
        fresh: remove it first.

    Raises:
        OptionError: if the folder holds something and neither is asked for, or both are; if it
            holds anything other than a comparison with these options; if another process is at
            work in it.
    """
    if resume and fresh:
        raise OptionError("--resume keeps what --fresh removes", "choose one of the two")
    with locked(options.folder):
        if (options.folder / CONFIG).is_file():
            _take_up(options, resume=resume, fresh=fresh)
        claim(options.folder, options.record())
        yield


def _take_up(options: Options, *, resume: bool, fresh: bool) -> None:
    folder = options.folder
    _check_kind(folder)
    if fresh:
        _clear(folder)
        write_json(folder / CONFIG, options.record())
    elif not resume:
        raise OptionError(
            f"{folder} holds a study already",
            "go on with it by --resume, or replace it by --fresh",
        )


def _check_kind(folder: Path) -> None:
    if (read_config(folder) or {}).get("study") != "paper":
        raise OptionError(
            f"{folder} holds something else than a study of the paper's tables",
            "choose another folder with --out",
        )


def _clear(folder: Path) -> None:
    for name in FOLDERS:
        shutil.rmtree(folder / name, ignore_errors=True)
    for pattern in FILES:
        for path in folder.glob(pattern):
            path.unlink(missing_ok=True)
