"""The lines of a text file, a block at a time, each with its number."""

from __future__ import annotations

import io
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from itertools import count, islice
from pathlib import Path

from varigraph.data.opened_files import opened
from varigraph.errors import FileError

#: Lines in a block: enough to be split by C code, too few for the garbage collector to wake up.
LENGTH = 1 << 10
#: Characters in a line. A file of links whose lines are longer is something else.
LONGEST = 1 << 16
#: Characters in a block; one of longer lines is cut, as each may have thousands of fields.
LARGEST = 1 << 20
#: Blocks in a row without any content, after which no more is to be expected.
BLANK = 1 << 10


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
