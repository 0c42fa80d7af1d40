"""The paper's tables: every method on every data set, in pieces that are never made twice."""

from varigraph.studies.comparison.study import Outcome, paper_study

__all__ = ["Outcome", "paper_study"]
