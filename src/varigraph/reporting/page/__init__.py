"""One page about a prediction, which opens offline: where a network is unsure, and why."""

from varigraph.reporting.page.report import report

__all__ = ["report"]
