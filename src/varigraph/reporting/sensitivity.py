"""Variance and error against the uncertainty of an input: as a table, as CSV and as a figure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator

from varigraph.files import csv_text
from varigraph.prediction.sources.features import FEATURES
from varigraph.prediction.sources.links import LINKS
from varigraph.prediction.sources.source import INTERACTIONS, all_parts
from varigraph.prediction.sources.weights import WEIGHTS
from varigraph.quantify.levels import Rung
from varigraph.reporting.text_table import TextTable

MEASURES = ("accuracy", "cross_entropy", "brier", "ece", "total")
_HEADER = ("accuracy", "loss", "Brier", "ECE", "variance")


def sensitivity_table(
    rungs: Sequence[Rung], *, ladder: str, title: str, notes: Sequence[str] = ()
) -> TextTable:
    """One row for each rung; sources that cause nothing have no column.

    Args:
        rungs: from the most certain up.
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
    return [part for part in all_parts() if any(rung.by_source[part] for rung in rungs)]


def sensitivity_csv(ladders: Mapping[str, Sequence[Rung]]) -> str:
    """One line for each rung of each ladder, numbers in full.

    Args:
        ladders: rungs by what grows on them.
    """
    names = ("ladder", "level", "input_var", *MEASURES, *all_parts())
    records = (
        {"ladder": ladder, **asdict(rung), **rung.by_source}
        for ladder, rungs in ladders.items()
        for rung in rungs
    )
    return csv_text(names, ([record[name] for name in names] for record in records))


def _variance(value: float) -> str:
    return f"{value:.4f}" if abs(value) >= 1e-4 else f"{value:.0e}" if value else "0"


COLOURS = {
    "total": "#222222",
    FEATURES: "#3b6ea5",
    LINKS: "#4f9d69",
    WEIGHTS: "#e0a458",
    INTERACTIONS: "#9a6fb0",
}
#: Of a source that has no colour of its own.
OTHER_COLOUR = "#7f7f7f"
ERRORS = {
    "cross_entropy": ("cross entropy (nats)", "#222222"),
    "brier": ("Brier score", "#3b6ea5"),
    "wrong": ("share of errors", "#b5484d"),
    "ece": ("calibration error", "#e0a458"),
}
#: What grows on a ladder, as its axis says it.
AXES = {
    "noise": "noise variance (% of the mean feature)",
    "doubt": "doubt about links (% of the doubt found)",
}
#: How far below the highest variance the axis goes.
DECADES = 4
#: Room between 0 and the first level above it, in decades.
BEFORE_FIRST = 0.35


def sensitivity_figure(ladders: Mapping[str, Sequence[Rung]], *, title: str) -> Figure:
    """A row for each ladder: variance by source on the left, error on the right.

    Args:
        ladders: rungs by what grows on them, ``noise`` or ``doubt``.
        title: what was measured.
    """
    figure = Figure(figsize=(10.5, 3.6 * len(ladders)), layout="constrained")
    rows = figure.subplots(len(ladders), 2, squeeze=False)
    for (ladder, rungs), (left, right) in zip(ladders.items(), rows, strict=True):
        variance_by_source(rungs, ladder=ladder, ax=left)
        errors(rungs, ladder=ladder, ax=right)
    figure.suptitle(title, fontsize=11)
    return figure


def variance_by_source(rungs: Sequence[Rung], *, ladder: str, ax: Axes) -> Axes:
    """Mean variance of a class probability and its parts; both axes are logarithmic.

    Args:
        rungs: of one ladder.
        ladder: what grows on it.
        ax: where to draw.
    """
    levels = [rung.level for rung in rungs]
    for name in ("total", *shown_parts(rungs)):
        values = [rung.total if name == "total" else rung.by_source[name] for rung in rungs]
        _line(ax, levels, values, name, COLOURS.get(name, OTHER_COLOUR))
    _logarithmic(ax, rungs)
    ax.set_ylabel("variance of a class probability")
    return _finish(ax, levels, ladder)


def errors(rungs: Sequence[Rung], *, ladder: str, ax: Axes) -> Axes:
    """Cross entropy, Brier score, share of errors and calibration error.

    Args:
        rungs: of one ladder.
        ladder: what grows on it.
        ax: where to draw.
    """
    levels = [rung.level for rung in rungs]
    for name, (label, colour) in ERRORS.items():
        values = [1 - r.accuracy if name == "wrong" else getattr(r, name) for r in rungs]
        _line(ax, levels, values, label, colour)
    ax.set_ylim(bottom=0)
    ax.set_ylabel("error")
    return _finish(ax, levels, ladder)


def _line(
    ax: Axes, levels: Sequence[float], values: Sequence[float], label: str, colour: str
) -> None:
    width = 1.8 if label == "total" else 1.2
    ax.plot(levels, values, color=colour, marker="o", markersize=3.5, linewidth=width, label=label)


def _logarithmic(ax: Axes, rungs: Sequence[Rung]) -> None:
    parts = [value for rung in rungs for value in (rung.total, *rung.by_source.values())]
    highest = max(parts)
    if highest <= 0:
        return  # nothing is uncertain, and a logarithm has no place for that
    lowest = max(min(value for value in parts if value > 0), highest / 10**DECADES)
    ax.set_yscale("log", nonpositive="mask")
    ax.set_ylim(lowest / 1.6, highest * 1.6)
    marks = (1, 2, 5) if highest / lowest < 300 else (1,)
    ax.yaxis.set_major_locator(LogLocator(subs=marks))
    ax.yaxis.set_major_formatter(FuncFormatter(lambda value, place: f"{value:g}"))
    ax.yaxis.set_minor_locator(NullLocator())


def _finish(ax: Axes, levels: Sequence[float], ladder: str) -> Axes:
    # A logarithm has no place for 0: below the first level above it the axis is straight.
    first = min((level for level in levels if level > 0), default=1.0)
    ax.set_xscale("symlog", linthresh=first, linscale=BEFORE_FIRST)
    ax.set_xlim(-0.3 * first, 1.15 * max(*levels, first))
    ax.set_xticks(levels, [f"{level:g}" for level in levels])
    ax.xaxis.set_minor_locator(NullLocator())
    ax.set_xlabel(AXES[ladder])
    ax.spines[["top", "right"]].set_visible(False)
    ax.legend(frameon=False, fontsize=8.5, loc="center left", bbox_to_anchor=(1, 0.5))
    return ax
