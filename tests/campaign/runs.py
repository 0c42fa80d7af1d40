"""Many cases on several processes, until time is up or all of them are through."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from multiprocessing import get_context

import torch

from campaign.trial import Verdict, tried

#: Cases that are handed to a process at a time.
TOGETHER = 10
#: Numbers of one seed's cases: seed 3 has those from 3,000,000 on.
PER_SEED = 1_000_000

Watch = Callable[[Verdict, Verdict], None]


def run(
    *, seed: int, cases: int, minutes: float, processes: int, device: str, watch: Watch
) -> Verdict:
    """The verdict on the cases of a seed.

    Args:
        seed: whose cases.
        cases: how many at most.
        minutes: how long at most.
        processes: how many at a time, of one thread each.
        device: where networks and graphs are put.
        watch: is told what was found since the last time, and all so far.
    """
    end, verdict = time.monotonic() + 60 * minutes, Verdict()
    left = _batches(seed, cases)
    with ProcessPoolExecutor(processes, get_context("spawn"), _one_quiet_thread) as pool:

        def submitted(count: int) -> set[Future[Verdict]]:
            batches = [b for _, b in zip(range(count), left, strict=False)]
            return {pool.submit(_tried_together, batch, device) for batch in batches}

        running = submitted(processes + 1)
        while running:
            done, running = wait(running, return_when=FIRST_COMPLETED)
            for finished in done:
                verdict += finished.result()
                watch(finished.result(), verdict)
            if time.monotonic() < end:
                running |= submitted(len(done))
    return verdict


def _batches(seed: int, cases: int) -> Iterator[range]:
    first, last = seed * PER_SEED, seed * PER_SEED + min(cases, PER_SEED)
    return (range(start, min(start + TOGETHER, last)) for start in range(first, last, TOGETHER))


def _one_quiet_thread() -> None:
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")


def _tried_together(numbers: range, device: str) -> Verdict:
    verdict = Verdict()
    for number in numbers:
        verdict += tried(number, device)
    return verdict
