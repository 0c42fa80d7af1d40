"""How good a prediction is, and how honest its variance."""

from varigraph.quantify.attribute import attribute
from varigraph.quantify.attribution import Attribution
from varigraph.quantify.audit import audit
from varigraph.quantify.audited import Audit
from varigraph.quantify.levels import Level, Published, Scores, score
from varigraph.quantify.scores import accuracy, cross_entropy, per_class_nll

__all__ = [
    "Attribution",
    "Audit",
    "Level",
    "Published",
    "Scores",
    "accuracy",
    "attribute",
    "audit",
    "cross_entropy",
    "per_class_nll",
    "score",
]
