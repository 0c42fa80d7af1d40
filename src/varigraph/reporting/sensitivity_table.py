"""Variance and error on every rung of a ladder, as a table and as CSV."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict

from varigraph.files import csv_text
from varigraph.prediction.prediction import PARTS
from varigraph.quantify.rungs import Rung
from varigraph.reporting.text_table import TextTable

MEASURES = ("accuracy", "cross_entropy", "brier", "ece", "total")
_HEADER = ("accuracy", "loss", "Brier", "ECE", "variance")


def sensitivity_table(
    rungs: Sequence[Rung], *, ladder: str, title: str, notes: Sequence[str] = ()
) -> TextTable:
    """One row for each rung; sources that cause nothing have no column.

    Args:
        rungs: from the surest up.
        ladder: what grows, such as ``noise``.
        title: what it shows, in a line.
        notes: what a reader must know, one sentence each.
    """
    parts = shown_parts(rungs)
    rows = (
        (
            f"{rung.level:g} %",
            f"{100 * rung.accuracy:.2f}",
            *(f"{value:.3f}" for value in (rung.cross_entropy, rung.brier, rung.ece)),
            *(_variance(value) for value in (rung.total, *(rung.by_source[p] for p in parts))),
        )
        for rung in rungs
    )
    return TextTable(title, (ladder, *_HEADER, *parts), tuple(rows), words=0, notes=tuple(notes))


def shown_parts(rungs: Sequence[Rung]) -> list[str]:
    """The parts of the variance that are not 0 on all rungs.

    Args:
        rungs: of one ladder.
    """
    return [part for part in PARTS if any(rung.by_source[part] for rung in rungs)]


def sensitivity_csv(ladders: Mapping[str, Sequence[Rung]]) -> str:
    """One line for each rung of each ladder, numbers in full.

    Args:
        ladders: rungs by what grows on them.
    """
    names = ("ladder", "level", "input_var", *MEASURES, *PARTS)
    records = (
        {"ladder": ladder, **asdict(rung), **rung.by_source}
        for ladder, rungs in ladders.items()
        for rung in rungs
    )
    return csv_text(names, ([record[name] for name in names] for record in records))


def _variance(value: float) -> str:
    return f"{value:.4f}" if abs(value) >= 1e-4 else f"{value:.0e}" if value else "0"
