"""One contender in a process of its own: how long, how much memory, which answer."""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from multiprocessing import get_all_start_methods, get_context
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from varigraph.errors import VarigraphError
from varigraph.studies.speed.contenders import BY_NAME, Contender
from varigraph.studies.speed.workload import Builder, Workload

Array = NDArray[Any]
#: What the contender itself is called among those that are timed in turn.
_THIS = "this"


@dataclass(frozen=True, eq=False)
class Trial:
    """What was measured.

    Args:
        seconds: median of the repeats, for all masks; None where none was asked for or possible.
        peak: bytes above those before, at the worst moment of the first call.
        masks: as many as were run; fewer than asked for where a loop would have taken too long.
        logits: their mean, ``[nodes, classes]``.
        logits_var: their variance, where the contender gives one for all masks.
        problem: why there is no answer.
        beside: median seconds of others that were timed in turn with it, by name.
    """

    seconds: float | None = None
    peak: int | None = None
    masks: int = 0
    logits: Array | None = None
    logits_var: Array | None = None
    problem: str | None = None
    beside: dict[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Terms:
    """How to measure.

    Args:
        repeats: calls to time after the first; 0 for the memory and the answer alone.
        threads: of torch.
        patience: seconds after which a loop over masks is cut short, and no call repeated.
        beside: names of contenders to time in turn with this one, so that a machine that becomes
            slower or faster does so for all of them.
    """

    repeats: int
    threads: int
    patience: float = 20.0
    beside: tuple[str, ...] = ()


def tried(name: str, builder: Builder, terms: Terms) -> Trial:
    """Measure a contender in a process of its own.

    Args:
        name: of the contender.
        builder: makes what it runs on.
        terms: how to measure.
    """
    try:
        return in_fresh_process(try_out, name, builder, terms)
    except ProcessDiedError as error:
        return Trial(problem=error.problem)


def try_out(name: str, builder: Builder, terms: Terms) -> Trial:
    """Measure a contender in this process.

    The first call is for the memory and the answer, and a warm-up for those that are timed.

    Args:
        name: of the contender.
        builder: makes what it runs on.
        terms: how to measure.
    """
    torch.set_num_threads(terms.threads)
    try:
        workload, contender = builder.build(), BY_NAME[name]
        torch.manual_seed(workload.seed)
        return _measured(contender, workload, terms)
    except VarigraphError as error:
        return Trial(problem=error.problem)
    except (RuntimeError, MemoryError, ImportError) as error:  # of a rival, or out of memory
        return Trial(problem=f"{type(error).__name__}: {str(error).splitlines()[0]}")


def _measured(contender: Contender, workload: Workload, terms: Terms) -> Trial:
    contender.run(workload.miniature)
    memory = PeakMemory(workload.graph.x.device)
    some = _affordable(contender, workload, terms.patience)
    answer = contender.run(some)
    peak = memory.bytes()
    medians = _in_turn(
        {_THIS: lambda: contender.run(some), **_others(workload, terms)}, workload, terms
    )
    share, seconds = workload.masks / some.looped, medians.pop(_THIS, None)
    return Trial(
        seconds=None if seconds is None else seconds * share,
        peak=peak,
        masks=some.looped,
        logits=_array(answer.logits),
        logits_var=_array(answer.logits_var) if share == 1 else None,
        beside=medians,
    )


def _others(workload: Workload, terms: Terms) -> dict[str, Callable[[], object]]:
    """Calls of those that are timed beside, run once already."""
    others: dict[str, Callable[[], object]] = {
        name: partial(BY_NAME[name].run, workload) for name in terms.beside
    }
    for run in others.values() if terms.repeats else ():
        run()
    return others


def _in_turn(
    calls: dict[str, Callable[[], object]], workload: Workload, terms: Terms
) -> dict[str, float]:
    """Median seconds of each; nothing where no repeats are asked for."""
    times: dict[str, list[float]] = {name: [] for name in calls}
    while len(times[_THIS]) < terms.repeats and sum(times[_THIS]) <= terms.patience:
        for name, call in calls.items():
            times[name].append(_seconds(call, workload))
    return {name: statistics.median(found) for name, found in times.items() if found}


def _affordable(contender: Contender, workload: Workload, patience: float) -> Workload:
    """The same with as many masks as there is patience for, where they are run one by one."""
    if not contender.loops:
        return workload
    one = replace(workload, passes=1)
    each = _seconds(lambda: contender.run(one), workload)
    return replace(workload, passes=min(workload.masks, max(2, int(patience / each))))


def _seconds(call: Callable[[], object], workload: Workload) -> float:
    _wait(workload)
    start = time.perf_counter()
    call()
    _wait(workload)
    return time.perf_counter() - start


def _wait(workload: Workload) -> None:
    if workload.graph.x.is_cuda:
        torch.cuda.synchronize()


def _array(values: Tensor | None) -> Array | None:
    return None if values is None else np.asarray(values.detach().cpu())


T = TypeVar("T")


class ProcessDiedError(VarigraphError):
    """A process ended before it had an answer."""


def in_fresh_process(work: Callable[..., T], *arguments: Any) -> T:
    """What a function returns in a process of its own, which ends with it.

    Processes are forked from one that has imported this package and done nothing else, so that
    each starts at once and from the same state.

    Args:
        work: a function of a module; its answer is sent between processes.
        arguments: of the function.

    Raises:
        ProcessDiedError: the process ended without an answer.
    """
    # A process that knows its GPU cannot be forked.
    forks = "forkserver" in get_all_start_methods() and not torch.cuda.is_available()
    context: Any = get_context("forkserver" if forks else "spawn")
    if forks:
        context.set_forkserver_preload([work.__module__])
    answers, out = context.Pipe(duplex=False)
    process = context.Process(target=_answer, args=(out, work, arguments), daemon=True)
    process.start()
    out.close()  # so that its end is seen here
    try:
        answer: T = answers.recv()
    except EOFError as error:
        process.join()
        raise ProcessDiedError(
            f"the process ended with {process.exitcode}, perhaps for want of memory",
            "take a smaller graph, fewer masks or less memory=",
        ) from error
    finally:
        process.kill()
        process.join()
    return answer


def _answer(out: Connection, work: Callable[..., Any], arguments: tuple[Any, ...]) -> None:
    out.send(work(*arguments))
    out.close()


#: Writing 5 to it makes Linux forget the largest size that a process has had.
FORGET = Path("/proc/self/clear_refs")
STATUS = Path("/proc/self/status")


class PeakMemory:
    """Counts from where it was made.

    On a processor it is the resident size of the whole process, so it is useful only in a
    process that does nothing else; on a GPU it is what torch has allocated there.

    Args:
        device: to watch.
    """

    def __init__(self, device: torch.device) -> None:
        self._device = device
        if device.type == "cuda":
            torch.cuda.reset_peak_memory_stats(device)
        else:
            with suppress(OSError):  # then it counts from the largest size so far
                FORGET.write_text("5")
        self._start = self._largest()

    def bytes(self) -> int | None:
        """The largest size since then, less that at the start; None where it is not known."""
        largest = self._largest()
        return None if largest is None or self._start is None else largest - self._start

    def _largest(self) -> int | None:
        if self._device.type == "cuda":
            return torch.cuda.max_memory_allocated(self._device)
        if sys.platform == "win32":
            return None
        if STATUS.exists():  # what getrusage says is inherited from the process that started this
            return next(
                1024 * int(line.split()[1])
                for line in STATUS.read_text().splitlines()
                if "VmHWM" in line
            )
        import resource  # noqa: PLC0415 - not on Windows

        size = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return size if sys.platform == "darwin" else 1024 * size
