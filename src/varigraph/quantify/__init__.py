"""What causes the variance of a prediction, and how far it can be believed."""

from varigraph.quantify.attribute import Attribution, attribute
from varigraph.quantify.audit import Audit, audit
from varigraph.quantify.levels import Level, Scores, score

__all__ = [
    "Attribution",
    "Audit",
    "Level",
    "Scores",
    "attribute",
    "audit",
    "score",
]
