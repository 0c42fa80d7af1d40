"""Work in a process of its own, which nothing before it has warmed up or filled."""

from __future__ import annotations

from collections.abc import Callable
from multiprocessing import get_all_start_methods, get_context
from multiprocessing.connection import Connection
from typing import Any, TypeVar

import torch

from varigraph.errors import VarigraphError

T = TypeVar("T")


class ProcessDiedError(VarigraphError):
    """A process ended before it had an answer."""


def in_fresh_process(work: Callable[..., T], *arguments: Any) -> T:
    """What a function returns in a process of its own, which ends with it.

    Processes are forked from one that has imported this package and done nothing else, so that
    each starts at once and from the same state.

    Args:
        work: a function of a module; its answer must be able to travel between processes.
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
