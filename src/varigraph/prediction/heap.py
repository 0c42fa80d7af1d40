"""How the C library lays out memory, where it lets itself be told (glibc)."""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from typing import Any

#: Names of glibc's options for mallopt.
MMAP_THRESHOLD, TRIM_THRESHOLD = -3, -1
#: From so many bytes on, a tensor is given back to the system as soon as it is freed.
OWN_MAPPING = 2**23
#: Where glibc's own thresholds end up in a process that has used large tensors.
USUAL_MMAP, USUAL_TRIM = 2**25, 2**26


@contextmanager
def without_gaps() -> Iterator[None]:
    """While this is open, large tensors lie by themselves, and leave no gaps when they are freed.

    Side by side, tensors of 5 to 30 MB that come and go make a process twice as large as they are.
    """
    library = _glibc()
    if library is None:
        yield
        return
    library.mallopt(MMAP_THRESHOLD, OWN_MAPPING)
    try:
        yield
    finally:
        keep_freed()


def keep_freed() -> None:
    """Leave large tensors that are freed with the process, for the next ones of their size.

    Otherwise a process that has not used larger ones yet gives them back, and asks for them again.
    """
    library = _glibc()
    if library is not None:
        library.mallopt(MMAP_THRESHOLD, USUAL_MMAP)
        library.mallopt(TRIM_THRESHOLD, USUAL_TRIM)


def give_back() -> None:
    """Give back the gaps between what is in use."""
    library = _glibc()
    if library is not None:
        library.malloc_trim(0)


@lru_cache(maxsize=1)
def _glibc() -> Any:
    if sys.platform != "linux":
        return None
    library = ctypes.CDLL(None)
    return library if hasattr(library, "malloc_trim") and hasattr(library, "mallopt") else None
