"""Files of others as streams and arrays: none can run code, wait for ever or fill the memory."""

from __future__ import annotations

import gzip
import io
import math
import os
import stat
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.lib import format as npy
from numpy.lib.npyio import NpzFile

from varigraph.errors import FileError, OptionError, VarigraphError
from varigraph.files import check_name

GZIP_MARK = b"\x1f\x8b"
#: Ways of packing that unpack no further than the archive declares; numpy and torch use no others.
PACKED_BY = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
#: Megabytes that any packed file may become, whatever its own size; the defaults are below.
UNPACKED_VARIABLE = "VARIGRAPH_UNPACKED_MB"
#: Times its own size that any packed file may become; tables of links reach 5 to 30.
RATIO = 100
#: Bytes of text, each of which takes many in memory once it is a link.
TEXT = 1 << 24
#: Bytes of arrays; bags of words are mostly zeros, which zip shrinks several hundred times.
ARRAYS = 1 << 30


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
    """The bytes of a file. Gzip is known by its first two bytes, whatever the file is called.

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


@contextmanager
def opened_arrays(path: Path) -> Iterator[NpzFile]:
    """The arrays of an ``.npz`` file, each read when it is asked for, none with code in it.

    What goes wrong inside of the block is taken for a fault of the file.

    Raises:
        FileError: if the file is no such archive, is damaged or would unpack to too much.
    """
    with regular(path) as stream:
        try:
            check_archive(path, stream)
            _check_headers(stream)
            with np.load(stream, allow_pickle=False) as stored:
                yield stored
        except VarigraphError:
            raise
        except Exception as error:  # damaged bytes fail in any way that they happen to suggest
            raise FileError(
                path,
                f"cannot be read: {first_line(error)}",
                "fetch it again, or write plain arrays with numpy.savez",
            ) from error


def check_archive(path: Path, stream: io.BufferedReader) -> None:
    """Looks at the sizes that a zip archive declares, and unpacks nothing.

    Args:
        path: the file, for messages.
        stream: the same file, open; afterwards at its beginning.

    Raises:
        FileError: if it would unpack to too much, or is packed in an unusual way.
        zipfile.BadZipFile: if it is no archive.
    """
    with zipfile.ZipFile(stream) as archive:
        entries = archive.infolist()
    if any(entry.compress_type not in PACKED_BY for entry in entries):
        raise FileError(path, "is packed in an unusual way", "pack it by zip's own method, or not")
    unpacked = sum(entry.file_size for entry in entries)
    check_unpacked(path, unpacked, packed=size_of(stream), always=ARRAYS)
    stream.seek(0)


def check_whole(path: Path, stream: io.BufferedReader) -> None:
    """:func:`check_archive`, and the checksums in it, which torch itself does not look at."""
    check_archive(path, stream)
    with zipfile.ZipFile(stream) as archive:
        damaged = archive.testzip()
    if damaged is not None:
        raise FileError(path, f"is damaged: wrong checksum of {damaged}", "fetch it again")
    stream.seek(0)


def _check_headers(stream: io.BufferedReader) -> None:
    """Numpy makes room for what a header promises before it looks whether that much follows."""
    with zipfile.ZipFile(stream) as archive:
        for entry in archive.infolist():
            with archive.open(entry) as member:
                shape, dtype = _promised(member)
                size = entry.file_size - member.tell()
            if dtype.hasobject:
                raise ValueError(f"{entry.filename} cannot be had without running code")
            if dtype.itemsize == 0 or math.prod(shape) * dtype.itemsize != size:
                raise ValueError(f"{entry.filename} is said to be {shape} of {dtype}, but is not")
    stream.seek(0)


def _promised(member: IO[bytes]) -> tuple[tuple[int, ...], np.dtype[Any]]:
    first = npy.read_magic(member) == (1, 0)
    read = npy.read_array_header_1_0 if first else npy.read_array_header_2_0
    shape, _, dtype = read(member)
    return shape, dtype


def first_line(error: Exception) -> str:
    """What an error says first, or its kind where it says nothing."""
    return next(iter(str(error).strip().splitlines()), type(error).__name__)


def most_unpacked(packed: int, *, always: int) -> int:
    """``max(always, RATIO * packed)`` bytes, where ``$VARIGRAPH_UNPACKED_MB`` replaces ``always``.

    Args:
        packed: bytes of the file.
        always: bytes that it may become in any case, :data:`TEXT` or :data:`ARRAYS`.

    Raises:
        OptionError: if the variable is set to something that is no number.
    """
    asked = os.environ.get(UNPACKED_VARIABLE)
    if asked and not asked.isdecimal():
        raise OptionError(
            f"${UNPACKED_VARIABLE} is {asked!r}", f"a whole number of MB: {UNPACKED_VARIABLE}=4000"
        )
    return max(int(asked) * 10**6 if asked else always, RATIO * packed)


def check_unpacked(path: Path, unpacked: int, *, packed: int, always: int) -> None:
    """Raises if a file becomes too large; see :func:`most_unpacked`.

    Args:
        path: the file, for the message.
        unpacked: bytes that it becomes, as far as is known.
        packed: bytes that it has.
        always: as in :func:`most_unpacked`.
    """
    most = most_unpacked(packed, always=always)
    if unpacked > most:
        raise FileError(
            path,
            f"its {packed:,} bytes unpack to more than {most:,}",
            f"if you trust it, allow that many MB: {UNPACKED_VARIABLE}={unpacked // 10**6 + 1}",
        )
