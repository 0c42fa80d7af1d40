"""A lock on an open file that the system lets go of when its process dies, in whatever way."""

from __future__ import annotations

import os
import sys

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
