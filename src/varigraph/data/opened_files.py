"""A file as a stream of bytes, unpacked where need be, with its troubles explained."""

from __future__ import annotations

import gzip
import io
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from varigraph.errors import FileError

GZIP_MARK = b"\x1f\x8b"


@contextmanager
def opened(path: Path) -> Iterator[io.BufferedReader | gzip.GzipFile]:
    """The bytes of a file. Gzip is told by its first two bytes, whatever the file is called.

    Raises:
        FileError: if there is no such file, or it cannot be read or unpacked.
    """
    try:
        if path.is_dir():
            raise FileError(path, "this is a folder", "give the path of a file in it")
        with path.open("rb") as plain:
            if plain.peek(2)[:2] != GZIP_MARK:
                yield plain
                return
            with gzip.open(plain) as unpacked:
                yield unpacked
    except FileNotFoundError as error:
        raise FileError(
            path, "there is no such file", f"correct the path; the folder is {_nearest(path)}"
        ) from error
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise FileError(
            path, f"the packed data is cut off or damaged: {error}", "fetch the file again"
        ) from error
    except OSError as error:
        raise FileError(
            path, f"it cannot be read: {error.strerror or error}", "see to it that you may read it"
        ) from error


def _nearest(path: Path) -> str:
    """The part of the path that exists, to show where it goes wrong."""
    return str(next(folder for folder in path.absolute().parents if folder.is_dir()))
