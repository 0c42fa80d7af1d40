"""Files that are whole or absent, whatever happens while they are written.

Tables as CSV, in which no cell is a formula to a spreadsheet.
"""

from __future__ import annotations

import csv
import errno
import io
import json
import os
import re
import secrets
import stat
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any, TextIO

from varigraph.errors import FileError
from varigraph.files.locks import try_lock

#: Refuses a name that exists, a link included; Windows has no links to follow.
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_NOFOLLOW", 0)
#: Opens whatever has the name of a draft, without following it or waiting for it.
_LOOK = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
_DRAFT = re.compile(r"\.varigraph-[0-9a-f]{16}\.tmp")
_ROOM = "make room on that disk, or choose another folder"
_REMEDIES = {
    errno.ENOSPC: _ROOM,
    errno.EDQUOT: _ROOM,
    errno.EFBIG: _ROOM,
    errno.EACCES: "choose a folder in which you may write",
    errno.EPERM: "choose a folder in which you may write",
    errno.EROFS: "choose a folder on a disk that can be written",
    errno.ENAMETOOLONG: "choose a shorter name",
}


def check_target(path: Path) -> None:
    """Raises where no file could be written, before the work that it would hold.

    Args:
        path: the file to write later.

    Raises:
        FileError: saying what stands in the way.
    """
    check_name(path)
    try:
        _mode_to_keep(path)
        if not os.access(path.parent, os.W_OK):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
    except OSError as error:
        raise _unwritable(path, error) from error


def check_name(path: Path) -> None:
    """Raises where no file of any system could have this name."""
    if "\0" in str(path):
        raise FileError(repr(str(path)), "no path has a zero byte in it", "correct the path")


@contextmanager
def replacing(path: Path) -> Iterator[IO[bytes]]:
    """A stream whose content takes the place of ``path`` when the block ends well, or vanishes.

    It is written to a draft beside ``path`` under a name that nobody can foresee, reaches the disk,
    and is then renamed: after a crash there is the old file or the new one. An earlier file hands
    on its permissions. A link in its place is replaced, never followed.

    Args:
        path: the file to write; its folder must exist.

    Raises:
        FileError: if it cannot be written, saying why.
    """
    try:
        mode = _mode_to_keep(path)
        remove_abandoned_drafts(path.parent)
        draft, handle = _new_draft(path.parent, mode)
        try:
            with os.fdopen(handle, "wb") as stream:
                yield stream
                stream.flush()
                os.fsync(handle)
                if os.name == "nt":  # where an open file cannot be renamed
                    stream.close()
                os.replace(draft, path)  # while it is locked, so that nobody takes it for abandoned
        finally:
            draft.unlink(missing_ok=True)
        _sync(path.parent)
    except OSError as error:
        raise _unwritable(path, error) from error


def write_text(path: Path, text: str) -> None:
    """Write a text file, whole or not at all."""
    with replacing(path) as stream:
        stream.write(text.encode())


def write_json(path: Path, value: Any) -> None:
    """Write a value as JSON; numbers that JSON does not have are refused."""
    write_text(path, json.dumps(value, indent=2, allow_nan=False) + "\n")


def remove_abandoned_drafts(folder: Path) -> None:
    """Remove what killed processes left half written: a living one holds the lock of its draft.

    Args:
        folder: to look in; folders below it are left alone.
    """
    with suppress(OSError), os.scandir(folder) as entries:
        for entry in entries:
            if _DRAFT.fullmatch(entry.name):
                _remove_if_abandoned(Path(entry.path))


def _remove_if_abandoned(draft: Path) -> None:
    with suppress(OSError):
        handle = os.open(draft, _LOOK)
        try:
            if try_lock(handle):
                draft.unlink()
        finally:
            os.close(handle)


def _new_draft(folder: Path, mode: int | None) -> tuple[Path, int]:
    """An empty file that this process alone has, and its handle."""
    while True:
        draft = folder / f".varigraph-{secrets.token_hex(8)}.tmp"
        # The system applies the umask to a new file, and a private one is private from the start.
        handle = os.open(draft, _NEW | getattr(os, "O_CLOEXEC", 0), 0o666 if mode is None else mode)
        try:
            if mode is not None and hasattr(os, "fchmod"):
                os.fchmod(handle, mode)
            if _is_ours(handle):
                return draft, handle
        except BaseException:
            os.close(handle)
            draft.unlink(missing_ok=True)
            raise
        os.close(handle)


def _is_ours(handle: int) -> bool:
    """False where another process took the draft for abandoned before it was locked."""
    try:
        return try_lock(handle) and os.fstat(handle).st_nlink > 0
    except OSError:  # a file system without locks, where no draft is ever taken for abandoned
        return True


def _mode_to_keep(path: Path) -> int | None:
    try:
        found = path.stat().st_mode
    except FileNotFoundError:
        return None
    if not stat.S_ISREG(found):
        kind = "a folder" if stat.S_ISDIR(found) else "a device or a pipe"
        raise FileError(path, f"is {kind}, not a file", "choose the name of a file")
    return stat.S_IMODE(found) & 0o777


def _sync(folder: Path) -> None:
    """Let the new name reach the disk as well, where folders can be synchronised."""
    if os.name == "nt":
        return
    with suppress(OSError):  # the file itself is in its place
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def _unwritable(path: Path, error: OSError) -> FileError:
    if not path.parent.is_dir():
        return FileError(path, f"there is no folder {path.parent}", f"mkdir -p {path.parent}")
    remedy = _REMEDIES.get(error.errno or 0, "choose another file")
    return FileError(path, f"cannot be written: {error.strerror or error}", remedy)


class UnusedFileWarning(UserWarning):
    """A file is damaged, or something else made it than what asks for it: it is not used."""


def say_unused(path: Path) -> None:
    """Warn about a file that is not used; nothing where there is none.

    Args:
        path: the file.
    """
    if path.exists():
        from varigraph.options import warn  # noqa: PLC0415 - needs torch, which takes seconds

        warn(f"{path} is damaged, or other options made it: it is not used", UnusedFileWarning)


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
