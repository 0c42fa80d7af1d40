"""What is to blame for the variance of a prediction, and how far it can be believed."""

from varigraph.quantify.attribute import attribute
from varigraph.quantify.attribution import Attribution
from varigraph.quantify.audit import audit
from varigraph.quantify.audited import Audit
from varigraph.quantify.levels import Level, Published, Scores, score

__all__ = [
    "Attribution",
    "Audit",
    "Level",
    "Published",
    "Scores",
    "attribute",
    "audit",
    "score",
]
