"""A table of text, as Markdown, as LaTeX and for a terminal."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.table import Table

_LATEX = {
    "\\": r"\textbackslash{}",
    **{sign: f"\\{sign}" for sign in "%&_#${}"},
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "±": r"$\pm$",
    "–": "--",
    "×": r"$\times$",
}


@dataclass(frozen=True)
class TextTable:
    """Cells of text with a title.

    Args:
        title: what it shows, in a line.
        header: names of the columns.
        rows: cells, as many in each row as there are columns.
        words: how many columns from the left hold words; the others hold numbers.
        notes: what a reader must know, one sentence each.
    """

    title: str
    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    words: int = 1
    notes: tuple[str, ...] = ()


def markdown(table: TextTable) -> str:
    """A heading, the table and its notes.

    Args:
        table: to show.
    """
    columns = len(table.header)
    rule = (*(["---"] * table.words), *(["---:"] * (columns - table.words)))
    lines = [f"| {' | '.join(cells)} |" for cells in (table.header, rule, *table.rows)]
    notes = "".join(f"- {note}\n" for note in table.notes)
    return f"## {table.title}\n\n" + "\n".join(lines) + "\n" + (f"\n{notes}" if notes else "")


def latex(table: TextTable) -> str:
    """A paragraph of title, ``tabular`` and notes that needs no package.

    Args:
        table: to show.
    """
    columns = "l" * table.words + "r" * (len(table.header) - table.words)
    head, *body = (" & ".join(map(escaped, cells)) for cells in (table.header, *table.rows))
    lines = [
        rf"\noindent\textbf{{{escaped(table.title)}}}\par\smallskip",
        rf"\noindent\begin{{tabular}}{{{columns}}}",
        r"\hline",
        rf"{head} \\",
        r"\hline",
        *(rf"{line} \\" for line in body),
        r"\hline",
        r"\end{tabular}\par\smallskip",
        *(rf"\noindent {escaped(note)}\par" for note in table.notes),
    ]
    return "\n".join(lines) + "\n"


def latex_document(tables: Iterable[TextTable]) -> str:
    """A document of tables, one on each page.

    Args:
        tables: in their order.
    """
    body = "\\clearpage\n".join(map(latex, tables))
    return (
        "\\documentclass{article}\n\\usepackage[margin=15mm]{geometry}\n"
        f"\\begin{{document}}\n\\footnotesize\n{body}\\end{{document}}\n"
    )


def escaped(text: str) -> str:
    r"""Text in which nothing is a command of LaTeX.

    Args:
        text: of a cell.

    Example:
        >>> print(escaped("5 % of x_var & more"))
        5 \% of x\_var \& more
    """
    return "".join(_LATEX.get(sign, sign) for sign in text)


def terminal(table: TextTable) -> Table:
    """The table for a terminal.

    Args:
        table: to show.
    """
    from rich.box import SIMPLE_HEAD  # noqa: PLC0415 - optional dependency
    from rich.table import Table  # noqa: PLC0415

    shown = Table(
        title=table.title,
        title_justify="left",
        box=SIMPLE_HEAD,
        padding=(0, 1, 0, 0),
        pad_edge=False,
    )
    for place, name in enumerate(table.header):
        shown.add_column(name, justify="left" if place < table.words else "right", no_wrap=True)
    for cells in table.rows:
        shown.add_row(*cells)
    return shown
