"""Errors of our own: each says what is wrong and what to do about it.

Catch :class:`VarigraphError` to catch them all. The command line prints them without a
traceback and exits with 2.
"""

from __future__ import annotations

from os import PathLike


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


class ProcessError(VarigraphError, RuntimeError):
    """Another of the processes that work on one graph has failed, or was started otherwise."""
