"""The lines of a text file, a block at a time, each with its number."""

from __future__ import annotations

import io
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import count, islice
from pathlib import Path

from varigraph.data.opened_files import opened
from varigraph.errors import FileError

#: Lines in a block: enough to be split by C code, too few for the garbage collector to wake up.
LENGTH = 1 << 10


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
        FileError: if the file cannot be read, or a line is not UTF-8.
    """
    with opened(path) as stream:
        # Escaped, bad bytes get as far as the check that knows their line.
        text = io.TextIOWrapper(stream, encoding="utf-8-sig", errors="surrogateescape")
        for start in count(1, LENGTH):
            lines = list(islice(text, LENGTH))
            if not lines:
                return
            _check_decoded(path, start, lines)
            yield TextBlock(start, _contents(lines))


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
