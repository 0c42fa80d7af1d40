"""How a processor is used: its threads, and the heap of the C library."""

from __future__ import annotations

import ctypes
import sys
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from functools import lru_cache
from typing import Any, TypeVar

import torch

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


Task = TypeVar("Task")
Result = TypeVar("Result")


def side_by_side(
    work: Callable[[Task], Result], tasks: Sequence[Task], *, workers: int
) -> Iterator[Result]:
    """Results of tasks, in their order, however many are worked on at a time.

    Splitting every operation among threads pays on large tensors alone; whole tasks can be had
    side by side on any. Nothing in them is learned.

    Args:
        work: does a task.
        tasks: what to do.
        workers: how many at a time; a single one leaves the threads to the operations.
    """
    if workers == 1:
        yield from map(work, tasks)
        return

    def done(task: Task) -> Result:
        with torch.no_grad():  # which belongs to a thread
            return work(task)

    with one_thread_each(), ThreadPoolExecutor(workers) as pool:
        coming: deque[Future[Result]] = deque()
        for task in tasks:
            coming.append(pool.submit(done, task))
            if len(coming) > workers:
                yield coming.popleft().result()
        while coming:
            yield coming.popleft().result()


@contextmanager
def one_thread_each() -> Iterator[None]:
    """Operations take one thread, in threads begun meanwhile as well."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)
