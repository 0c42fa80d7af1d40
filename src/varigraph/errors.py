"""Errors of our own: each says what is wrong and what to do about it.

Catch :class:`VarigraphError` to catch them all. The command line prints them without a
traceback and exits with 2.
"""


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


class ModelError(VarigraphError, TypeError):
    """The model does not fit the graph, or does something that no method here can follow."""


class MissingRuleError(ModelError):
    """A layer or function has no moment rule. It is never skipped: that would be silently wrong."""


class TooLargeError(ModelError):
    """The work does not fit in the memory that it was given; said before it starts."""


class OptionError(VarigraphError, ValueError):
    """An option has a value that makes no sense."""
