"""A file as a stream of bytes, unpacked where need be, with its troubles explained."""

from __future__ import annotations

import gzip
import io
import os
import stat
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from varigraph.data.unpacked_sizes import TEXT, check_unpacked, most_unpacked
from varigraph.errors import FileError
from varigraph.files import check_name

GZIP_MARK = b"\x1f\x8b"


class Gunzipped(gzip.GzipFile):
    """The content of a gzip file, which is refused once it has grown out of all proportion.

    Args:
        path: the file, for messages.
        packed: its bytes.
    """

    def __init__(self, path: Path, packed: io.BufferedReader) -> None:
        super().__init__(fileobj=packed)
        self._path, self._packed = path, size_of(packed)
        self._most = most_unpacked(self._packed, always=TEXT)

    def read(self, size: int | None = -1) -> bytes:
        """As of every stream, but never more than a byte beyond what is allowed."""
        left = self._most + 1 - self.tell()
        return self._checked(super().read(left if size is None or size < 0 else min(size, left)))

    def read1(self, size: int = -1) -> bytes:
        """As of every stream; a buffer at most."""
        return self._checked(super().read1(size))

    def _checked(self, content: bytes) -> bytes:
        if self.tell() > self._most:
            check_unpacked(self._path, self.tell(), packed=self._packed, always=TEXT)
        return content


@contextmanager
def opened(path: Path) -> Iterator[io.BufferedReader | Gunzipped]:
    """The bytes of a file. Gzip is told by its first two bytes, whatever the file is called.

    Raises:
        FileError: as :func:`regular`, and if it cannot be unpacked or grows out of proportion.
    """
    try:
        with regular(path) as plain:
            if plain.peek(2)[:2] != GZIP_MARK:
                yield plain
                return
            with Gunzipped(path, plain) as unpacked:
                yield unpacked
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise FileError(
            path, f"the packed data is cut off or damaged: {error}", "fetch the file again"
        ) from error


@contextmanager
def regular(path: Path) -> Iterator[io.BufferedReader]:
    """The bytes of a file as they are on disk. A pipe or device, which may never end, is refused.

    Raises:
        FileError: if there is no such file, it is of another kind, or it cannot be read.
    """
    check_name(path)
    try:
        if path.is_dir():
            raise FileError(path, "this is a folder", "give the path of a file in it")
        with open(path, "rb", opener=_at_once) as stream:
            if not stat.S_ISREG(os.fstat(stream.fileno()).st_mode):
                raise FileError(
                    path,
                    "this is a pipe or a device, which may never end",
                    "write what comes out of it to a file, and give that",
                )
            yield stream
    except gzip.BadGzipFile:
        raise  # an OSError by birth, but about the content
    except FileNotFoundError as error:
        raise FileError(
            path, "there is no such file", f"correct the path; the folder is {_nearest(path)}"
        ) from error
    except OSError as error:
        raise FileError(
            path, f"it cannot be read: {error.strerror or error}", "see to it that you may read it"
        ) from error


def size_of(stream: io.BufferedReader) -> int:
    """Bytes of an open file."""
    return os.fstat(stream.fileno()).st_size


def _at_once(name: str, flags: int) -> int:
    # To open a pipe would else mean to wait for somebody who writes to it.
    return os.open(name, flags | getattr(os, "O_NONBLOCK", 0))


def _nearest(path: Path) -> str:
    """The part of the path that exists, to show where it goes wrong."""
    return str(next(folder for folder in path.absolute().parents if folder.is_dir()))
