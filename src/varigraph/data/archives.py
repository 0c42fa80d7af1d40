"""Arrays from ``.npz``, and the bounds of every zip archive that is read."""

from __future__ import annotations

import io
import math
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.lib import format as npy
from numpy.lib.npyio import NpzFile

from varigraph.data.opened_files import regular, size_of
from varigraph.data.unpacked_sizes import ARRAYS, check_unpacked
from varigraph.errors import FileError, VarigraphError

#: Ways of packing that unpack no further than the archive declares; numpy and torch use no others.
PACKED_BY = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)


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
