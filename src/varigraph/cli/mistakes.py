"""Mistakes and interruptions in a few words or as JSON, without a traceback."""

from __future__ import annotations

import json
import re
import sys
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from importlib import import_module
from typing import Any

import typer
from typer.core import TyperGroup

from varigraph.errors import VarigraphError
from varigraph.files.whole_file import UnusedFileWarning
from varigraph.interrupts import INTERRUPTED, leaving_at_once

MISTAKE = 2
GOES_ON = "stopped; what was finished is kept, the same command goes on"
STOPPED = "stopped; nothing was written"
#: Options that have the same name in Python and on the command line.
SAME = (
    "dropout ends epochs folds kind links memory method node nodes noise odds of output samples "
    "scale score seed sources task threads top"
)
#: Fields of a graph in Python, as one gives them here.
IN_WORDS = {
    "data.x_var = 0.1": "--noise-var 0.1, or x_var in the graph",
    "data.edge_prob = ...": "edge_prob in the graph",
    "nodes=data.val_mask": "--nodes val",
    "data.y": "y in the graph",
}
#: An option as Python has it, ``seed=0`` or ``scale=``, where it is not part of a call.
_KEYWORD = re.compile(
    rf"""(?<![\w.(-])(?<!, )({SAME.replace(" ", "|")})=("[^"]*"|'[^']*'|\([^)]*\)|[\w.+-]+)?"""
)


@contextmanager
def explained(stopped: str = GOES_ON, *, as_json: bool = False) -> Iterator[None]:
    """Within it, our own errors exit with 2, and Ctrl-C with 130; unused files are noted.

    All work is done within it, and torch, which takes seconds, comes when it is entered: help and
    completion do without.

    Args:
        stopped: what to say after Ctrl-C.
        as_json: print errors as JSON, where results would be.
    """
    with leaving_at_once():
        import_module("varigraph.prediction")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("always", UnusedFileWarning)
            warnings.showwarning = _note
            yield
    except VarigraphError as error:
        _print_error(error, as_json=as_json)
        raise typer.Exit(MISTAKE) from error
    except ModuleNotFoundError as error:
        if error.name != "matplotlib":
            raise
        missing = VarigraphError(f"{error.name} is missing", 'pip install "varigraph[cli]"')
        _print_error(missing, as_json=as_json)
        raise typer.Exit(MISTAKE) from error
    except KeyboardInterrupt as error:
        print(stopped, file=sys.stderr)
        raise typer.Exit(INTERRUPTED) from error


def _print_error(error: VarigraphError, *, as_json: bool) -> None:
    if as_json:
        problem, remedy = as_options(error.problem), as_options(error.remedy)
        print_mistake(type(error).__name__, problem, remedy)
    else:
        print(f"error: {as_options(str(error))}", file=sys.stderr)


def as_options(text: str) -> str:
    """What Python calls ``seed=0`` as the command line has it.

    Args:
        text: of an error.

    Example:
        >>> as_options("seed=-1 is negative; GCN(dropout=0.5) is not meant")
        '--seed -1 is negative; GCN(dropout=0.5) is not meant'
    """
    for python, words in IN_WORDS.items():
        text = text.replace(python, words)
    return _KEYWORD.sub(lambda found: f"--{found[1]}{_value(found[2])}", text)


def _value(text: str | None) -> str:
    return "" if text is None else " none" if text == "False" else f" {text}"


def print_mistake(kind: str, message: str, remedy: str) -> None:
    """``{"error": {"kind": …, "message": …, "remedy": …}}`` on standard output.

    Args:
        kind: class of the error.
        message: what is wrong, and with what.
        remedy: what to do about it.
    """
    typer.echo(json.dumps({"error": {"kind": kind, "message": message, "remedy": remedy}}))


def _note(message: Warning | str, *place: object, **more: object) -> None:
    """A warning as a line; where in the code it arose is of no use here."""
    print(f"note: {message}", file=sys.stderr)


JSON = "--json"
#: What typer raises for a command that it cannot read; it is exported only as this base.
UsageError: Any = typer.BadParameter.__base__


class Verbs(TyperGroup):
    """Verbs whose mistakes in options and arguments obey ``--json``, as those of the work do."""

    def main(
        self,
        args: Sequence[str] | None = None,
        prog_name: str | None = None,
        complete_var: str | None = None,
        standalone_mode: bool = True,
        windows_expand_args: bool = True,
        **extra: Any,
    ) -> Any:
        """What typer does, with other words for a usage error."""
        words = list(sys.argv[1:] if args is None else args)
        ours = standalone_mode and JSON in words
        call = partial(super().main, words, prog_name, complete_var, **extra)
        if not ours:
            return call(standalone_mode=standalone_mode, windows_expand_args=windows_expand_args)
        try:
            code = call(standalone_mode=False)
        except UsageError as error:
            print_mistake("UsageError", error.format_message(), f"{error.ctx.command_path} --help")
            sys.exit(error.exit_code)
        sys.exit(code or 0)
