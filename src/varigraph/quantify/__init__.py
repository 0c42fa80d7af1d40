"""What causes the variance of a prediction, and how far it can be believed."""

from varigraph.quantify.attribute import attribute
from varigraph.quantify.attribution import Attribution
from varigraph.quantify.audit import Audit, audit
from varigraph.quantify.graph_attribution import GraphAttribution
from varigraph.quantify.levels import Level, Scores, score
from varigraph.quantify.plan import Plan, plan

__all__ = [
    "Attribution",
    "Audit",
    "GraphAttribution",
    "Level",
    "Plan",
    "Scores",
    "attribute",
    "audit",
    "plan",
    "score",
]
