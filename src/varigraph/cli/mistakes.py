"""Mistakes and interruptions in a few words, without a traceback."""

from __future__ import annotations

import json
import re
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager

import typer

from varigraph.errors import VarigraphError
from varigraph.files.whole_file import UnusedFileWarning

MISTAKE, INTERRUPTED = 2, 130
GOES_ON = "stopped; what was finished is kept, the same command goes on"
STOPPED = "stopped; nothing was written"
#: Options that have the same name in Python and on the command line.
SAME = "dropout epochs folds links memory method noise odds samples seed sources task threads"
#: One of them as Python has it, ``seed=0``, where it is not part of a call.
_KEYWORD = re.compile(
    rf"""(?<![\w.(-])(?<!, )({SAME.replace(" ", "|")})=("[^"]*"|'[^']*'|[\w.+-]+)"""
)


@contextmanager
def explained(stopped: str = GOES_ON, *, as_json: bool = False) -> Iterator[None]:
    """Within it, errors of our own exit with 2, and Ctrl-C with 130; unused files are noted.

    Args:
        stopped: what to say after Ctrl-C.
        as_json: print errors as JSON, where results would stand.
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("always", UnusedFileWarning)
            warnings.showwarning = _note
            yield
    except VarigraphError as error:
        if as_json:
            problem, remedy = as_options(error.problem), as_options(error.remedy)
            print_mistake(type(error).__name__, problem, remedy)
        else:
            print(f"error: {as_options(str(error))}", file=sys.stderr)
        raise typer.Exit(MISTAKE) from error
    except KeyboardInterrupt as error:
        print(stopped, file=sys.stderr)
        raise typer.Exit(INTERRUPTED) from error


def as_options(text: str) -> str:
    """What Python calls ``seed=0`` as the command line has it.

    Args:
        text: of an error.

    Example:
        >>> as_options("seed=-1 is negative; GCN(dropout=0.5) is not meant")
        '--seed -1 is negative; GCN(dropout=0.5) is not meant'
    """
    return _KEYWORD.sub(r"--\1 \2", text)


def print_mistake(kind: str, message: str, remedy: str) -> None:
    """``{"error": {"kind": …, "message": …, "remedy": …}}`` on standard output.

    Args:
        kind: class of the error.
        message: what is wrong, naming the culprit.
        remedy: what to do about it.
    """
    typer.echo(json.dumps({"error": {"kind": kind, "message": message, "remedy": remedy}}))


def _note(message: Warning | str, *place: object, **more: object) -> None:
    """A warning as a line; where in the code it arose is of no use here."""
    print(f"note: {message}", file=sys.stderr)
