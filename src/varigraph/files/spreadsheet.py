"""Tables as CSV, in which no cell is a formula to a spreadsheet."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterable
from pathlib import Path
from typing import TextIO

from varigraph.files.whole_file import replacing

#: A text that a spreadsheet would compute, unless it is a plain number with its sign.
_FORMULA = re.compile(r"[=@\t\r\n]|[+-](?!(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?\Z)")


def csv_text(header: Iterable[str], rows: Iterable[Iterable[object]]) -> str:
    """A table as CSV. Texts that begin like a formula get an apostrophe in front; numbers do not.

    Args:
        header: names of the columns.
        rows: texts and numbers; None becomes an empty cell.

    Example:
        >>> csv_text(["name", "mean"], [["=1+2", -0.5], ["-7", 3]]).splitlines()
        ['name,mean', "'=1+2,-0.5", '-7,3']
    """
    text = io.StringIO()
    _write(text, header, rows)
    return text.getvalue()


def write_csv(path: Path, header: Iterable[str], rows: Iterable[Iterable[object]]) -> None:
    """Write a table as :func:`csv_text` has it, row by row: it may be larger than the memory.

    Args:
        path: the file.
        header: names of the columns.
        rows: as they come.

    Raises:
        FileError: if it cannot be written, saying why.
    """
    with replacing(path) as stream:
        text = io.TextIOWrapper(stream, encoding="utf-8", newline="", write_through=True)
        _write(text, header, rows)
        text.detach()


def _write(text: TextIO, header: Iterable[str], rows: Iterable[Iterable[object]]) -> None:
    writer = csv.writer(text)  # its lines end in CR LF, so that it quotes either within a name
    writer.writerow(map(_cell, header))
    writer.writerows(map(_cell, row) for row in rows)


def _cell(value: object) -> object:
    return f"'{value}" if isinstance(value, str) and _FORMULA.match(value) else value
