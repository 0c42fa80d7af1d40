"""Processes that make pieces, each with one thread: the numbers do not depend on how many."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from multiprocessing import get_context
from multiprocessing.connection import Connection

import torch

from varigraph.errors import VarigraphError
from varigraph.prediction.side_by_side import one_thread_each
from varigraph.studies.comparison.options import Options
from varigraph.studies.comparison.pieces import Piece

#: Told about every piece that was made, and the seconds that it took.
Made = Callable[[Piece, float], None]


def make_pieces(todo: Mapping[str, Piece], options: Options, *, jobs: int, made: Made) -> None:
    """Make pieces, what is needed before what needs it.

    Args:
        todo: by name, in the order of :func:`~varigraph.studies.comparison.pieces.unfinished`.
        options: of the comparison.
        jobs: how many processes; one makes them all in this one.
        made: called after each.

    Raises:
        VarigraphError: what was wrong with a piece; those made before it are kept.
    """
    if jobs > 1:
        _in_processes(dict(todo), options, jobs, made)
        return
    with one_thread_each():
        for piece in todo.values():
            start = time.perf_counter()
            piece.make(options)
            made(piece, time.perf_counter() - start)


def _in_processes(todo: dict[str, Piece], options: Options, jobs: int, made: Made) -> None:
    missing, running = set(todo), dict[Future[_Answer], Piece]()
    mistake: tuple[str, str] | None = None
    with _pool(jobs) as pool:
        while True:
            if mistake is None:  # else what is running is finished, and nothing begun
                for piece in _ready(todo, missing, options)[: jobs - len(running)]:
                    running[pool.submit(_make, piece, options)] = todo.pop(piece.name)
            if not running:
                break
            for future in wait(running, return_when=FIRST_COMPLETED).done:
                piece = running.pop(future)
                seconds, wrong = _answer(future, piece)
                if wrong is None:
                    missing.remove(piece.name)
                    made(piece, seconds)
                mistake = mistake or wrong
    if mistake is not None:
        raise VarigraphError(*mistake)


def _ready(todo: dict[str, Piece], missing: set[str], options: Options) -> list[Piece]:
    return [
        piece
        for piece in todo.values()
        if missing.isdisjoint(needed.name for needed in piece.needs(options))
    ]


#: Seconds, and what is wrong and the remedy: an error of ours does not travel between processes.
_Answer = tuple[float, tuple[str, str] | None]


def _make(piece: Piece, options: Options) -> _Answer:
    start = time.perf_counter()
    try:
        piece.make(options)
    except VarigraphError as error:
        return 0.0, (error.problem, error.remedy)
    return time.perf_counter() - start, None


def _answer(future: Future[_Answer], piece: Piece) -> _Answer:
    try:
        return future.result()
    except BrokenProcessPool as error:
        raise VarigraphError(
            f"the process that made {piece.name} or its neighbour died, perhaps for want of memory",
            "go on with one process: --resume --jobs 1",
        ) from error


@contextmanager
def _pool(jobs: int) -> Iterator[ProcessPoolExecutor]:
    context = get_context("spawn")  # a fork would copy threads of torch in the middle of their work
    leash, hold = context.Pipe(duplex=False)
    pool = ProcessPoolExecutor(jobs, mp_context=context, initializer=_obey, initargs=(leash,))
    try:
        yield pool
    finally:
        hold.close()  # before the shutdown, which would wait for pieces that nobody wants any more
        pool.shutdown(cancel_futures=True)
        leash.close()


def _obey(leash: Connection) -> None:
    """One thread for the work; and an end as soon as the other end of the leash is let go.

    That happens when the study ends, well or not, and when its process is killed.
    """
    torch.set_num_threads(1)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the study, which lets go

    def watch() -> None:
        leash.poll(None)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()
