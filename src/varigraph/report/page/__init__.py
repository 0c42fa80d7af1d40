"""One page about a prediction that opens offline: where a network is unsure, and why."""

from varigraph.report.page.report import report

__all__ = ["report"]
