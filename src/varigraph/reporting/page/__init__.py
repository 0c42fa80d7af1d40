"""One page about a prediction that opens offline: where a network is unsure, and why."""

from varigraph.reporting.page.report import report

__all__ = ["report"]
