"""Locks that end with the process that holds them, and folders in which one works at a time."""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from pathlib import Path

from varigraph.errors import OptionError

if sys.platform == "win32":
    import msvcrt

    def try_lock(handle: int) -> bool:
        """Whether the open file is now locked for this process alone. It never waits."""
        os.lseek(handle, 2**30, os.SEEK_SET)  # a locked place cannot be read, so it is far away
        try:
            msvcrt.locking(handle, msvcrt.LK_NBLCK, 1)
        except PermissionError:
            return False
        finally:
            os.lseek(handle, 0, os.SEEK_SET)
        return True

else:
    import fcntl

    def try_lock(handle: int) -> bool:
        """Whether the open file is now locked for this process alone. It never waits.

        Raises:
            OSError: if the file system knows no locks.
        """
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True


LOCK = ".varigraph-lock"
_OPEN = os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
#: Folders that the running code has locked: a study may call another one in its own folder.
_HELD: ContextVar[frozenset[str]] = ContextVar("held folders", default=frozenset())


@contextmanager
def locked(folder: Path, *, again: bool = True) -> Iterator[None]:
    """Within it, no other process and no other thread works in a folder.

    The lock ends with the process that holds it, killed or not. On a file system without locks
    there is none.

    Args:
        folder: made if it is missing, and removed again if nothing was put into it.
        again: whether the code that has locked it may do so once more.

    Raises:
        OptionError: at once, if another process is at work there, or the folder cannot be used.
    """
    name = os.path.realpath(folder)
    if again and name in _HELD.get():
        yield
        return
    made = not folder.exists()
    handle = _taken(folder)
    token = _HELD.set(_HELD.get() | {name})
    try:
        yield
    finally:
        _HELD.reset(token)
        _let_go(folder / LOCK, handle)
        if made:
            with suppress(OSError):  # it holds something
                folder.rmdir()


def _taken(folder: Path) -> int:
    """The handle of the lock, which holds the number of this process."""
    while True:
        try:
            folder.mkdir(parents=True, exist_ok=True)
            handle = os.open(folder / LOCK, _OPEN, 0o666)
        except OSError as error:
            if isinstance(error, FileNotFoundError) and not folder.exists():
                continue  # another process was done with it and removed it
            raise unusable(folder, error.strerror or str(error)) from error
        try:
            if _is_locked(folder, handle):
                os.ftruncate(handle, 0)
                os.write(handle, str(os.getpid()).encode())
                return handle
        except BaseException:
            os.close(handle)
            raise
        os.close(handle)


def _is_locked(folder: Path, handle: int) -> bool:
    """Whether the lock is ours now; False where its file was removed in the meantime.

    Raises:
        OptionError: if somebody else has it, or the file is something else than a lock.
    """
    found = os.fstat(handle)
    if not stat.S_ISREG(found.st_mode) or found.st_nlink > 1:
        raise unusable(folder, f"its {LOCK} is no file of ours")
    try:
        free = try_lock(handle)
    except OSError:  # a file system without locks
        free = True
    if not free:
        holder = os.read(handle, 20).decode(errors="replace")
        raise OptionError(
            f"{folder} is in use by {f'process {holder}' if holder.isdigit() else 'a process'}",
            "wait until that is done, or choose another folder with --out",
        )
    try:
        return os.path.samestat(os.fstat(handle), os.stat(folder / LOCK))
    except FileNotFoundError:
        return False


def _let_go(lock: Path, handle: int) -> None:
    if os.name == "nt":  # where an open file cannot be removed
        os.close(handle)
    with suppress(OSError):
        lock.unlink()
    if os.name != "nt":
        os.close(handle)


def unusable(folder: Path, why: str | None) -> OptionError:
    """The error about a folder in which nobody can work."""
    return OptionError(f"{folder} cannot be used: {why}", "choose another folder with --out")
