"""Processes that make pieces, each with one thread, and how long that takes.

The numbers do not depend on how many processes there are.
"""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from multiprocessing import get_context
from multiprocessing.connection import Connection

import torch

from varigraph.errors import VarigraphError
from varigraph.prediction.processor import one_thread_each
from varigraph.studies.comparison.pieces import Piece
from varigraph.studies.comparison.protocols import Options

#: Called with every piece that was made, and the seconds that it took.
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
        if missing.isdisjoint(needed.name for needed in piece.prerequisites(options))
    ]


#: Seconds, and what is wrong and the remedy: our errors cannot be sent between processes.
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
    lifeline, study_end = context.Pipe(duplex=False)
    pool = ProcessPoolExecutor(
        jobs, mp_context=context, initializer=_prepare_worker, initargs=(lifeline,)
    )
    try:
        yield pool
    finally:
        study_end.close()  # first: a shutdown would wait for pieces that are no longer wanted
        pool.shutdown(cancel_futures=True)
        lifeline.close()


def _prepare_worker(lifeline: Connection) -> None:
    """One thread for the work; and an end as soon as the other end of the lifeline is closed.

    That happens when the study ends, well or not, and when its process is killed.
    """
    torch.set_num_threads(1)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the study, which closes it

    def watch() -> None:
        lifeline.poll(None)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


#: Seconds on one core, measured once; only their ratios count as soon as a piece is finished.
TYPICAL_SECONDS: dict[str, dict[str, float]] = {
    "cora": {
        **{"links": 29, "network": 33, "ensemble": 150, "noise-aware": 155},
        **{"drop-connect": 30, "bgcn-map": 6, "bgcn-block": 4},
    },
    "computers": {
        **{"links": 300, "network": 110, "ensemble": 550, "noise-aware": 310},
        **{"drop-connect": 85, "bgcn-map": 150, "bgcn-block": 140, "plain": 10},
    },
    "pubmed": {
        **{"links": 250, "network": 40, "ensemble": 220, "noise-aware": 390},
        **{"drop-connect": 60, "bgcn-map": 60, "bgcn-block": 30, "plain": 5},
    },
}
#: Of a kind that is not in the table above.
OTHER_SECONDS = {"cora": 8.0, "computers": 45.0, "pubmed": 25.0}


def cost(piece: Piece) -> float:
    """Seconds that a piece should take.

    Args:
        piece: of any kind.
    """
    return TYPICAL_SECONDS.get(piece.dataset, {}).get(
        piece.kind, OTHER_SECONDS.get(piece.dataset, 10.0)
    )


class Clock:
    """Seconds that are left, from the pieces that were made so far.

    Args:
        todo: all that is to be made.
        jobs: processes at work.
    """

    def __init__(self, todo: Iterable[Piece], *, jobs: int) -> None:
        self.left = {piece.name: cost(piece) for piece in todo}
        self.total, self.jobs = len(self.left), jobs
        self.expected = self.seen = 0.0

    def made(self, piece: Piece, seconds: float) -> None:
        """Record a piece.

        Args:
            piece: that was made.
            seconds: it took.
        """
        self.expected += self.left.pop(piece.name)
        self.seen += seconds

    @property
    def done(self) -> int:
        """How many pieces are made."""
        return self.total - len(self.left)

    @property
    def seconds_left(self) -> float:
        """Expected seconds of what is left, times the error of the expectations so far."""
        pace = self.seen / self.expected if self.expected else 1.0
        return pace * sum(self.left.values()) / min(self.jobs, max(len(self.left), 1))
