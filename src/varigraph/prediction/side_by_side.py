"""Independent pieces of work on all threads at once, each piece on one of them."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import TypeVar

import torch

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
