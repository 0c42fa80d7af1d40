"""All tables of a comparison, by number."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from varigraph.reporting.text_table import TextTable
from varigraph.studies.comparison.accuracy_table import accuracy_table
from varigraph.studies.comparison.data_table import data_table
from varigraph.studies.comparison.method_tables import method_tables
from varigraph.studies.comparison.node_table import node_table
from varigraph.studies.comparison.plan import DATASET
from varigraph.studies.comparison.results import Results
from varigraph.studies.comparison.verdicts import verdicts
from varigraph.studies.paper import notes


def tables(
    numbers: Sequence[int], results: Results, datasets: Sequence[str], *, root: Path | None
) -> dict[int, list[TextTable]]:
    """The tables, each of one part or several.

    Args:
        numbers: of the tables.
        results: of their cells.
        datasets: that table 1 describes.
        root: folder that holds them.
    """
    return {number: _table(number, results, datasets, root) for number in numbers}


def _table(
    number: int, results: Results, datasets: Sequence[str], root: Path | None
) -> list[TextTable]:
    if number == 1:
        return [data_table(datasets, root=root)]
    if number == 2:
        return [accuracy_table(results)]
    if number == 3:
        return [node_table(results)]
    papers, held_out, beyond, parts = method_tables(results, number)
    dataset = DATASET[number]
    return [
        replace(papers, notes=(*papers.notes, *notes(dataset)[1:])),
        held_out,
        replace(beyond, notes=(*beyond.notes, *verdicts(results, dataset))),
        parts,
    ]
