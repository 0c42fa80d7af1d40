"""``varigraph study paper``: all tables of the paper, from nothing or from where it stopped."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from varigraph.errors import OptionError
from varigraph.files import write_json, write_text
from varigraph.reporting.text_table import TextTable, latex, latex_document, markdown
from varigraph.studies.comparison.cell import Cell
from varigraph.studies.comparison.costs import Clock, cost
from varigraph.studies.comparison.document import document
from varigraph.studies.comparison.methods import METHODS, Method
from varigraph.studies.comparison.options import Options
from varigraph.studies.comparison.pieces import Piece, unfinished
from varigraph.studies.comparison.plan import SLOW, cells_of, tables_of
from varigraph.studies.comparison.results import Results
from varigraph.studies.comparison.study_folder import claimed_study
from varigraph.studies.comparison.tables import tables
from varigraph.studies.comparison.workers import make_pieces
from varigraph.studies.paper import DATA

FOLDER = Path("runs") / "study-paper"


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
        text: all tables and what is to be known about them, in Markdown.
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
    out: str | Path = FOLDER,
    root: str | Path | None = None,
    jobs: int = 1,
    methods: Sequence[Method] = METHODS,
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
        progress: called after each piece.

    Raises:
        OptionError: if an option makes no sense, or the folder holds something else or is in use.
    """
    if jobs < 1:
        raise OptionError(f"jobs is {jobs}", "give at least one process: jobs=1")
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
    todo = unfinished(sorted(cells, key=cost, reverse=True), options)
    clock, made = Clock(todo.values(), jobs=jobs), list[str]()

    def tell(piece: Piece, seconds: float) -> None:
        made.append(piece.name)
        clock.made(piece, seconds)
        if progress is not None:
            progress(Step(piece.name, seconds, clock.done, clock.total, clock.seconds_left))

    make_pieces(todo, options, jobs=min(jobs, max(len(todo), 1)), made=tell)
    return tuple(made)


def _seconds(cells: Sequence[Cell], options: Options) -> float:
    """What all pieces took, those of earlier calls included."""
    needed = {piece.name: piece for cell in cells for piece in (cell, *cell.needs(options))}
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
    """What a study found, as JSON has it.

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
