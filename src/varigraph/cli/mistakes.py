"""Mistakes and interruptions in a few words, without a traceback."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager

import typer

from varigraph.errors import VarigraphError

MISTAKE, INTERRUPTED = 2, 130
GOES_ON = "stopped; what was finished is kept, the same command goes on"
STOPPED = "stopped; nothing was written"


@contextmanager
def explained(stopped: str = GOES_ON) -> Iterator[None]:
    """Within it, errors of our own exit with 2, and Ctrl-C with 130.

    Args:
        stopped: what to say after Ctrl-C.
    """
    try:
        yield
    except VarigraphError as error:
        print(f"error: {error}", file=sys.stderr)
        raise typer.Exit(MISTAKE) from error
    except KeyboardInterrupt as error:
        print(stopped, file=sys.stderr)
        raise typer.Exit(INTERRUPTED) from error
