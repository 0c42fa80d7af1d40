"""Errors of our own: each says what is wrong and what to do about it.

Catch :class:`VarigraphError` to catch them all. The command line prints them without a
traceback and exits with 2.
"""

from __future__ import annotations

import sysconfig
import traceback
from os import PathLike
from pathlib import Path

#: Homes of the code that calls the user's, and is called by it.
LIBRARIES = (
    str(Path(__file__).parent),
    sysconfig.get_path("purelib"),
    sysconfig.get_path("platlib"),
    sysconfig.get_path("stdlib"),
)


class VarigraphError(Exception):
    """A mistake we can explain.

    Args:
        problem: what is wrong, naming the culprit.
        remedy: what to do about it, as code where possible.
    """

    def __init__(self, problem: str, remedy: str) -> None:
        super().__init__(f"{problem}\n  remedy: {remedy}")
        self.problem, self.remedy = problem, remedy


class GraphError(VarigraphError, ValueError):
    """The graph, its noise or its link probabilities cannot be right."""


class DatasetError(VarigraphError, LookupError):
    """A data set is unknown, missing or unreadable."""


class FileError(VarigraphError, ValueError):
    """A file cannot be read, or what stands in it cannot be right.

    Args:
        path: the file.
        problem: what is wrong with it, naming the culprit.
        remedy: what to do about it.
        line: where, counted from 1; None if it is about the file as a whole.
    """

    def __init__(
        self, path: str | PathLike[str], problem: str, remedy: str, *, line: int | None = None
    ) -> None:
        place = f"{path}, line {line}" if line else f"{path}"
        super().__init__(f"{place}: {problem}", remedy)
        self.path, self.line = path, line


class ModelError(VarigraphError, TypeError):
    """The model does not fit the graph, or does something that no method here can follow."""


class MissingRuleError(ModelError):
    """A layer or function has no moment rule. It is never skipped: that would be silently wrong."""


class TooLargeError(ModelError):
    """The work does not fit in the memory that it was given; said before it starts."""


class OptionError(VarigraphError, ValueError):
    """An option has a value that makes no sense."""


def place_of(error: BaseException) -> str:
    """What went wrong and where, in a line.

    Args:
        error: that was caught.
    """
    said = str(error).strip().splitlines()
    frames = traceback.extract_tb(error.__traceback__)
    own = [frame for frame in frames if not _is_library(frame.filename)]
    where = f" ({Path(own[-1].filename).name}, line {own[-1].lineno})" if own else ""
    return f"{type(error).__name__}: {said[0] if said else ''}{where}"


def _is_library(file: str) -> bool:
    """Whether a line of code is not the user's own: nothing could be corrected there."""
    return file.startswith(("<", *LIBRARIES))
