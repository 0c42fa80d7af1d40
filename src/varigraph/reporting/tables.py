"""What a run measured at each level of noise, and how good probabilities of links are."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from varigraph.links import LinkQuality
from varigraph.quantify import Level
from varigraph.reporting.text_table import TextTable

if TYPE_CHECKING:
    from rich.table import Table

_LEGEND = (
    "noise: variance of the features in per cent of their mean; accuracy in per cent; loss: cross "
    "entropy of the expected probabilities.",
    "variance: of the class probabilities, mean over test nodes and classes; it is the sum of its "
    "sources.",
)


def level_table(levels: Sequence[Level], *, title: str, notes: Sequence[str] = ()) -> TextTable:
    """A row for each level of noise: how often the network is right, how unsure it is, and why.

    Args:
        levels: what was measured at each level of noise.
        title: its heading.
        notes: what a reader must know, one sentence each.
    """
    parts = tuple(dict.fromkeys(part for level in levels for part in level.scores.by_source))
    header = ("noise", "accuracy", "loss", "variance", *parts)
    rows = tuple(_row(level, parts) for level in levels)
    return TextTable(title, header, rows, notes=(*_LEGEND, *notes))


def _row(level: Level, parts: Sequence[str]) -> tuple[str, ...]:
    found = level.scores
    variances = (found.total, *(found.by_source.get(part, 0.0) for part in parts))
    return (
        f"{level.noise:g} %",
        f"{100 * found.accuracy:.2f}",
        f"{found.cross_entropy:.3f}",
        *map(_variance, variances),
    )


def _variance(value: float) -> str:
    return f"{value:.4f}" if abs(value) >= 1e-3 else f"{value:.0e}" if value else "0"


def link_quality(quality: LinkQuality) -> Table:
    """How well probabilities separate links from non-links at balanced odds, for a terminal.

    Args:
        quality: what was measured.
    """
    from rich.box import SIMPLE_HEAD  # noqa: PLC0415 - optional dependency
    from rich.table import Table  # noqa: PLC0415

    table = Table(box=SIMPLE_HEAD, padding=0, pad_edge=False)
    cells = {
        "AUC": quality.auc,
        "average precision": quality.average_precision,
        "Brier": quality.brier,
        "ECE": quality.ece,
        "log loss": quality.log_loss,
    }
    for name in cells:
        table.add_column(name, justify="right", no_wrap=True)
    table.add_row(*(f"{value:.4f}" for value in cells.values()))
    return table
