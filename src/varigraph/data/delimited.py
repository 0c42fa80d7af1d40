"""Links from tables: one a line, fields separated by spaces, tabs or commas."""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterator, Sequence
from itertools import compress
from operator import itemgetter
from pathlib import Path
from reprlib import repr as shortened
from typing import TypeAlias

from varigraph.data.columns import Columns, FirstRow, Wanted
from varigraph.data.link_blocks import LinkBlock
from varigraph.data.text_lines import TextBlock, text_lines
from varigraph.errors import FileError

Row: TypeAlias = Sequence[str]
#: From lines to rows, one for each line; that of an empty line is empty.
Split: TypeAlias = Callable[[list[str]], list[list[str]]]


def delimited(path: Path, wanted: Wanted, *, commas: bool) -> Iterator[LinkBlock]:
    """The links of a table in blocks, in the order of the file.

    Without commas, tabs separate the fields if there is one in the first line; then names may
    have spaces. Else any white space does. Fields may be quoted where commas or tabs separate.

    Args:
        path: the file, gzipped or not.
        wanted: the columns to read.
        commas: whether it is a table with commas and a header.

    Raises:
        FileError: naming the first line that cannot be right.
    """
    columns: Columns | None = None
    split: Split = _by_spaces
    for block in text_lines(path):
        if columns is None:
            first = next(filter(None, block.lines), "")
            split = _by("," if commas else "\t") if commas or "\t" in first.strip() else _by_spaces
        lines, rows = _rows(path, block, split)
        if columns is None and rows:
            fields = list(map(str.strip, rows[0]))
            columns = FirstRow(path, lines[0], fields, commas).columns(wanted)
            if columns.header:
                lines, rows = lines[1:], rows[1:]
        if columns is not None and rows:
            yield _links(path, lines, rows, columns)


def _by_spaces(lines: list[str]) -> list[list[str]]:
    return list(map(str.split, lines))


def _by(separator: str) -> Split:
    def split(lines: list[str]) -> list[list[str]]:
        return list(csv.reader(lines, delimiter=separator, skipinitialspace=True, strict=True))

    return split


def _rows(path: Path, block: TextBlock, split: Split) -> tuple[Sequence[int], list[list[str]]]:
    """Rows that are not empty, and the numbers of their lines."""
    try:
        rows = split(block.lines)
    except csv.Error:
        rows = []
    if len(rows) != len(block.lines):  # a quoted field went on into the next line
        raise _unquoted(path, block, split)
    lines = range(block.start, block.start + len(rows))
    if all(rows):
        return lines, rows
    return list(compress(lines, rows)), list(filter(None, rows))


def _unquoted(path: Path, block: TextBlock, split: Split) -> FileError:
    """The error for the first line that cannot be split by itself."""
    for number, line in enumerate(block.lines, block.start):
        try:
            split([line])
        except csv.Error as error:
            return FileError(
                path,
                f"{shortened(line)} cannot be split into fields: {error}",
                "a field that begins with a quotation mark ends with one, in the same line; "
                "marks within it are doubled",
                line=number,
            )
    raise AssertionError("lines that can be split one by one can be split together")


def _links(path: Path, lines: Sequence[int], rows: list[list[str]], columns: Columns) -> LinkBlock:
    if set(map(len, rows)) != {columns.width}:
        raise _ragged(path, lines, rows, columns.width)
    sources, targets = (_column(rows, place) for place in (columns.source, columns.target))
    for ends in (sources, targets):
        if not all(ends):
            raise FileError(
                path,
                "a link has an end without a name",
                "add the name or remove the line",
                line=lines[ends.index("")],
            )
    scores = None if columns.score is None else _column(rows, columns.score)
    return LinkBlock(lines, sources, targets, scores, certain=columns.certain)


def _column(rows: list[list[str]], place: int) -> list[str]:
    return list(map(str.strip, map(itemgetter(place), rows)))


def _ragged(path: Path, lines: Sequence[int], rows: list[list[str]], width: int) -> FileError:
    place = next(place for place, row in enumerate(rows) if len(row) != width)
    few = "few" if len(rows[place]) < width else "many"
    return FileError(
        path,
        f"too {few} fields: {len(rows[place])} instead of {width} in "
        f"{shortened(' '.join(rows[place]))}",
        "complete or remove the line; names that contain spaces need tabs between the fields",
        line=lines[place],
    )
