"""The tables and the picture of docs/results.md, from docs/results-tables.md; the best is marked.

varigraph study paper --write-docs docs/results-tables.md   # an hour and a half
python scripts/results_page.py                              # a second: page and pictures
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, TypeAlias

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure

DOCS = Path(__file__).parents[1] / "docs"
TABLES, PAGE, PICTURE = DOCS / "results-tables.md", DOCS / "results.md", "pictures/results.svg"
DATASETS = {
    "Cora": "Cora",
    "Computers": "Computers",
    "Pubmed": "PubMed",
}  # as tables, as people say
MARK = "<!-- tables -->"
LEVELS = ("0 %", "2.5 %", "5 %", "12 %")
MOST = LEVELS[-1]
#: Measures that are shown, and whether more is better.
MEASURES = {"accuracy": True, "loss": False, "Brier": False, "ECE": False, "AURC": False}
WORDS = {"loss": "cross entropy"}
DRAWN = {"accuracy": "accuracy (%)", "loss": "cross entropy", "ECE": "calibration error (ECE)"}
#: Methods in the pictures: colour, and a line that is told from others without it.
STYLES = {
    "plain": ("#858b94", ":"),
    "bgnn": ("#d0605d", "--"),
    "first-order": ("#4c8bc9", "-"),
    "ensemble": ("#dd9a45", "-."),
    "noise-aware": ("#4f9d69", "-"),
}
GREY = "#858b94"  # readable on white and on black alike
STYLE: Any = {
    "font.size": 9,
    "svg.fonttype": "none",
    "font.family": "sans-serif",
    "svg.hashsalt": "varigraph",
    **dict.fromkeys(
        ["text.color", "axes.edgecolor", "axes.labelcolor", "xtick.color", "ytick.color"], GREY
    ),
}
Cells: TypeAlias = dict[tuple[str, str, str], str]  # noise, method, measure -> text


def main() -> None:
    page = TABLES.read_text(encoding="utf-8")
    found = {dataset: cells(page, dataset) for dataset in DATASETS}
    parts = [table(DATASETS[dataset], found[dataset]) for dataset in DATASETS]
    before, after = PAGE.read_text(encoding="utf-8").split(MARK)[::2]
    PAGE.write_text(MARK.join([before, "\n\n" + "\n".join(parts) + "\n", after]), encoding="utf-8")
    draw(found).savefig(DOCS / PICTURE, metadata={"Date": None}, transparent=True)
    print(PAGE)


def cells(page: str, dataset: str) -> Cells:
    """Every cell of the tables about held-out nodes of a data set."""
    found: Cells = {}
    for title, body in re.findall(r"^## (.+)\n\n((?:\|.*\n)+)", page, re.MULTILINE):
        if not re.fullmatch(rf"Table \d\. {dataset}, held-out(: calibration)?", title):
            continue
        header, _, *rows = (
            [cell.strip() for cell in line.split("|")[1:-1]] for line in body.splitlines()
        )
        for noise, method, *values in rows:
            for name, value in zip(header[2:], values, strict=True):
                found[noise, method, name] = value
    return found


def mean(text: str) -> float | None:
    """The mean that a cell shows, if any."""
    return None if text == "–" else float(text.partition(" ± ")[0])


def best(held: Cells, measure: str) -> float:
    """The best mean of any method under most noise."""
    values = [
        mean(text) for (noise, _, name), text in held.items() if (noise, name) == (MOST, measure)
    ]
    known = [value for value in values if value is not None]
    return max(known) if MEASURES[measure] else min(known)


def table(title: str, held: Cells) -> str:
    """All methods under most noise, the best mean of each measure in bold."""
    methods = list(dict.fromkeys(method for _, method, _ in held))
    head = ["method", *(WORDS.get(name, name) for name in MEASURES)]
    lines = [f"### {title}", "", f"| {' | '.join(head)} |", f"|---|{'---:|' * len(MEASURES)}"]
    for method in methods:
        texts = [held[MOST, method, measure] for measure in MEASURES]
        marked = [
            f"**{text}**" if mean(text) == best(held, measure) else text
            for text, measure in zip(texts, MEASURES, strict=True)
        ]
        lines.append(f"| `{method}` | {' | '.join(marked)} |")
    return "\n".join([*lines, ""])


def draw(found: dict[str, Cells]) -> Figure:
    """Measures against noise: a column for each data set, a row for each measure."""
    mpl.rcParams.update(STYLE)
    figure = Figure(figsize=(9, 7), layout="constrained")
    for row, measure in enumerate(DRAWN):
        for column, (dataset, title) in enumerate(DATASETS.items()):
            ax = figure.add_subplot(len(DRAWN), len(DATASETS), 1 + row * len(DATASETS) + column)
            _lines(ax, found[dataset], measure)
            ax.set(title=title if row == 0 else "", ylabel=DRAWN[measure] if column == 0 else "")
    handles, labels = figure.axes[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=len(STYLES), frameon=False)
    return figure


def _lines(ax: Axes, held: Cells, measure: str) -> None:
    for method, (colour, line) in STYLES.items():
        values: Any = [mean(held[noise, method, measure]) for noise in LEVELS]
        x = [float(level.split()[0]) for level in LEVELS]
        ax.plot(x, values, line, color=colour, label=method)
    ax.set_xticks([0, 5, 10], ["0 %", "5 %", "10 %"])
    ax.locator_params(axis="y", nbins=4)
    ax.spines[["top", "right"]].set_visible(False)


if __name__ == "__main__":
    main()
