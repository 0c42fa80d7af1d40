"""Measured next to published figures, one row per level of noise."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from varigraph.links import LinkQuality
from varigraph.prediction.sources.links import LINKS
from varigraph.quantify import Level

if TYPE_CHECKING:
    from rich.table import Table

HEADER = (
    "noise",
    "accuracy",
    "paper",
    "loss",
    "paper",
    "NLL",
    "paper",
    "variance",
    "paper",
    "aleatoric",
    "epistemic",
)
_LEGEND = (
    "noise: variance of the features in per cent of their mean; accuracy in per cent; loss: cross "
    "entropy of the expected probabilities; NLL: equation 14, variances below 1e-6 count as 1e-6.",
    "variance = aleatoric + epistemic, mean over test nodes and classes.",
)
_LINKS_LEGEND = "links: the part of the aleatoric variance that uncertain links cause alone."
_NONE = "–"


def header(levels: Sequence[Level]) -> tuple[str, ...]:
    """The names of the columns: :data:`HEADER`, and that of the links where they are uncertain.

    Args:
        levels: what was measured and published at each level of noise.
    """
    uncertain = any(level.scores.by_source[LINKS] > 0 for level in levels)
    return (*HEADER, LINKS) if uncertain else HEADER


def rows(levels: Sequence[Level]) -> list[tuple[str, ...]]:
    """The cells of the table as text, in the order of :func:`header`.

    Args:
        levels: what was measured and published at each level of noise.
    """
    width = len(header(levels))
    return [_row(level)[:width] for level in levels]


def markdown(levels: Sequence[Level], *, title: str, notes: Sequence[str] = ()) -> str:
    """The table as a Markdown document.

    Args:
        levels: what was measured and published at each level of noise.
        title: its heading.
        notes: what a reader must know, one sentence each.
    """
    names = header(levels)
    lines = [names, ("---:",) * len(names), *rows(levels)]
    table = "\n".join(f"| {' | '.join(line)} |" for line in lines)
    legend = (*_LEGEND, _LINKS_LEGEND) if LINKS in names else _LEGEND
    remarks = "\n".join(f"- {note}" for note in (*legend, *notes))
    return f"# {title}\n\n{table}\n\n{remarks}\n"


def terminal(levels: Sequence[Level], *, title: str) -> Table:
    """The table for a terminal of 80 columns, the paper's figures dimmed.

    Args:
        levels: what was measured and published at each level of noise.
        title: its heading.
    """
    from rich.box import SIMPLE_HEAD  # noqa: PLC0415 - optional dependency
    from rich.table import Table  # noqa: PLC0415

    table = Table(title=title, title_justify="left", box=SIMPLE_HEAD, padding=0, pad_edge=False)
    names = header(levels)
    short = {"aleatoric": "alea-\ntoric", "epistemic": "epis-\ntemic"}
    if LINKS in names:
        short["variance"] = "vari-\nance"
    for name in names:
        style = "dim" if name == "paper" else ""
        table.add_column(short.get(name, name), justify="right", no_wrap=True, style=style)
    for row in rows(levels):
        table.add_row(*row)
    return table


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


def _row(level: Level) -> tuple[str, ...]:
    ours, paper = level.scores, level.published
    return (
        f"{level.noise:g} %",
        f"{100 * ours.accuracy:.2f}",
        f"{100 * paper.accuracy:.2f}" if paper else _NONE,
        f"{ours.cross_entropy:.3f}",
        _printed(paper.cross_entropy if paper else None),
        _nll(ours.per_class_nll),
        _printed(paper.per_class_nll if paper else None),
        _variance(ours.total),
        _printed(paper.total if paper else None),
        _variance(ours.aleatoric),
        _variance(ours.epistemic),
        _variance(ours.by_source[LINKS]),
    )


def _nll(value: float | None) -> str:
    if value is None:
        return _NONE
    return f"{value:.2f}" if abs(value) < 1000 else f"{value:.0e}"


def _variance(value: float) -> str:
    return f"{value:.4f}" if value >= 1e-3 else f"{value:.0e}" if value else "0"


def _printed(value: float | None) -> str:
    return _NONE if value is None else f"{value:g}"
