"""Links from tables: one a line, fields separated by spaces, tabs or commas."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import compress, count, islice
from operator import itemgetter
from pathlib import Path
from reprlib import repr as shortened
from typing import Literal, TypeAlias

from varigraph.data.link_tables import LinkBlock, is_number
from varigraph.data.opened_files import opened
from varigraph.errors import FileError

#: A column by its name in the header, or by its number, counted from 0.
Column: TypeAlias = str | int
#: The column of the score; None where it goes without saying, False where there is none to read.
ScoreColumn: TypeAlias = Column | Literal[False] | None
#: From lines to rows, one for each line; that of an empty line is empty.
Splitter: TypeAlias = Callable[[list[str]], list[list[str]]]
#: How a file of STRING begins, and what it calls the score that all evidence together gives.
STRING_ENDS, STRING_SCORE, STRING_CERTAIN = ["protein1", "protein2"], "combined_score", 1000.0
#: Names by which a column of scores is known in a header; of several, the first is meant.
SCORES = ("probability", "measured", "computed")
#: Names of columns in a message.
LISTED = 20
#: Lines in a block: enough to be split by C code, too few for the garbage collector to wake up.
LENGTH = 1 << 10
#: Characters in a line. A file of links whose lines are longer is something else.
LONGEST = 1 << 16
#: Characters in a block; one of longer lines is cut, as each may have thousands of fields.
LARGEST = 1 << 20
#: Blocks in a row without any content, after which no more is to be expected.
BLANK = 1 << 10


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
    split: Splitter = _by_spaces
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


def comma_rows(path: Path) -> Iterator[tuple[int, list[str]]]:
    """The rows of a table with commas, each with the number of its line; the first is the header.

    Args:
        path: the file, gzipped or not.

    Raises:
        FileError: naming the first line that cannot be right.
    """
    width, split = 0, _by(",")
    for block in text_lines(path):
        lines, rows = _rows(path, block, split)
        width = width or len(rows[0] if rows else ())
        if any(len(row) != width for row in rows):
            raise _ragged(path, lines, rows, width)
        for line, row in zip(lines, rows, strict=True):
            yield line, list(map(str.strip, row))


def _by_spaces(lines: list[str]) -> list[list[str]]:
    return list(map(str.split, lines))


def _by(separator: str) -> Splitter:
    def split(lines: list[str]) -> list[list[str]]:
        return list(csv.reader(lines, delimiter=separator, skipinitialspace=True, strict=True))

    return split


def _rows(path: Path, block: TextBlock, split: Splitter) -> tuple[Sequence[int], list[list[str]]]:
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


def _unquoted(path: Path, block: TextBlock, split: Splitter) -> FileError:
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


@dataclass(frozen=True)
class Wanted:
    """What the caller asks for.

    Args:
        score: the column of the score; None for the third of three, or that of STRING; False if
            scores are not wanted.
        ends: the columns of the ends.
        optional: whether a table of two columns, which has no scores, will do as well.
    """

    score: ScoreColumn
    ends: tuple[Column, Column]
    optional: bool = False

    @property
    def by_name(self) -> bool:
        """Whether a header is needed to find the columns."""
        return any(isinstance(column, str) for column in (self.score, *self.ends))


@dataclass(frozen=True)
class Columns:
    """Where things stand in each row of a file.

    Args:
        source: number of the column of one end.
        target: that of the other end.
        score: that of the score; None if scores are not wanted.
        width: how many columns there are.
        header: whether the first row names the columns.
        certain: the score of a certain link.
    """

    source: int
    target: int
    score: int | None
    width: int
    header: bool
    certain: float


@dataclass(frozen=True)
class FirstRow:
    """The first row of a file, from which the columns are known.

    Args:
        path: the file, for messages.
        line: number of the row's line.
        fields: what stands in it.
        names_columns: whether this kind of file always has a header.
    """

    path: Path
    line: int
    fields: Sequence[str]
    names_columns: bool

    def columns(self, wanted: Wanted) -> Columns:
        """Where the wanted columns are.

        Raises:
            FileError: if one of them does not exist, or it is unclear which is meant.
        """
        header = self.names_columns or wanted.by_name or self._of_string
        score = None
        unscored = wanted.optional and wanted.score is None and len(self.fields) == 2
        if wanted.score is not False and not unscored:
            score = self._place(self._score(wanted.score, header), header)
        source, target = (self._place(end, header) for end in wanted.ends)
        if len({source, target, score}) < 3:
            raise self._error(
                f"the ends are columns {source} and {target}, the score is column {score}",
                "give three different columns by ends= and score=",
            )
        numeric = source if score is None else score  # a header does not name a column 0.9 or 17
        if header and not self._asked(wanted) and is_number(self.fields[numeric]):
            raise self._error(
                f"the names of the columns belong here, not the number {self.fields[numeric]}",
                "add a first line such as from,to,confidence",
            )
        certain = STRING_CERTAIN if self._of_string else 1.0
        return Columns(source, target, score, len(self.fields), header, certain)

    @staticmethod
    def _asked(wanted: Wanted) -> bool:
        """Whether the caller knows the name of the column that would show a missing header."""
        return isinstance(wanted.ends[0] if wanted.score is False else wanted.score, str)

    @property
    def _of_string(self) -> bool:
        return list(self.fields[:2]) == STRING_ENDS and STRING_SCORE in self.fields

    def _score(self, score: Column | None, header: bool) -> Column:
        if score is not None:
            return score
        if self._of_string:
            return STRING_SCORE
        if known := [name for name in SCORES if header and name in self.fields]:
            return known[0]
        if header:
            raise self._error(
                f"it is unclear which column is the score; {self._listed()}",
                f"say which: score={self.fields[-1]!r}, or score=False if none is",
            )
        if len(self.fields) != 3:
            raise self._error(
                f"{len(self.fields)} columns instead of three: {shortened(' '.join(self.fields))}",
                "say which column is the score, counted from 0: score=3, or score=False if none "
                "is; a file whose fields are separated by commas is called .csv",
            )
        return 2

    def _place(self, column: Column, header: bool) -> int:
        if isinstance(column, int):
            if column < len(self.fields):
                return column
            raise self._error(
                f"there is no column {column}; {self._listed() if header else self._counted()}",
                f"count from 0 to {len(self.fields) - 1}",
            )
        if self.fields.count(column) == 1:
            return self.fields.index(column)
        which = "more than one column is" if column in self.fields else "no column is"
        raise self._error(
            f"{which} called {column!r}; {self._listed()}",
            "give one of these names, or the number of the column, counted from 0",
        )

    def _counted(self) -> str:
        return f"there are {len(self.fields)}"

    def _listed(self) -> str:
        more = ", ..." if len(self.fields) > LISTED else ""
        return f"there are {', '.join(map(shortened, self.fields[:LISTED]))}{more}"

    def _error(self, problem: str, remedy: str) -> FileError:
        return FileError(self.path, problem, remedy, line=self.line)


@dataclass(frozen=True)
class TextBlock:
    """Consecutive lines; blank ones and comments are there as empty strings.

    Args:
        start: number of the first line, counted from 1.
        lines: the lines.
    """

    start: int
    lines: list[str]


def text_lines(path: Path) -> Iterator[TextBlock]:
    """The lines of a UTF-8 file, gzipped or not; a comment is a line that begins with ``#``.

    Raises:
        FileError: if the file cannot be read, a line is not UTF-8 or longer than :data:`LONGEST`,
            or a million lines in a row have no content.
    """
    blank = 0
    for block in _blocks(path):
        blank = 0 if any(block.lines) else blank + 1
        if blank > BLANK:
            raise FileError(
                path,
                f"nothing but blank lines and comments for {LENGTH * BLANK:,} lines",
                "remove them, or give another file",
                line=block.start,
            )
        yield block


def _blocks(path: Path) -> Iterator[TextBlock]:
    with opened(path) as stream:
        # Escaped, bad bytes get as far as the check that knows their line.
        text = io.TextIOWrapper(stream, encoding="utf-8-sig", errors="surrogateescape")
        bounded = iter(partial(text.readline, LONGEST + 1), "")
        for start in count(1, LENGTH):
            lines = list(islice(bounded, LENGTH))
            if not lines:
                return
            size = sum(map(len, lines))
            _check_lengths(path, start, lines, size)
            _check_decoded(path, start, lines)
            step = LENGTH if size <= LARGEST else LARGEST // LONGEST
            for first in range(0, len(lines), step):
                yield TextBlock(start + first, _contents(lines[first : first + step]))


def _check_lengths(path: Path, start: int, lines: list[str], size: int) -> None:
    if size <= LONGEST:
        return
    for number, line in enumerate(lines, start):
        if len(line) > LONGEST:
            raise FileError(
                path,
                f"the line has more than {LONGEST:,} characters",
                "give a file with one link a line",
                line=number,
            )


def _contents(lines: list[str]) -> list[str]:
    if not any(map(str.isspace, lines)) and "#" not in "".join(lines):  # nearly always
        return lines
    return ["" if line.isspace() or line.lstrip().startswith("#") else line for line in lines]


def _check_decoded(path: Path, start: int, lines: list[str]) -> None:
    if all(map(str.isascii, lines)):
        return
    for number, line in enumerate(lines, start):
        try:
            line.encode()
        except UnicodeEncodeError as error:
            byte = ord(line[error.start]) - 0xDC00  # how bad bytes are escaped
            raise FileError(
                path,
                f"byte 0x{byte:02x} after {error.start} characters is not UTF-8",
                "save the file as UTF-8; if it is packed, then by gzip only",
                line=number,
            ) from error
