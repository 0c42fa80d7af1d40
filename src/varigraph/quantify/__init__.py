"""Step 4: how good a prediction is, and how honest its variance."""

from varigraph.quantify.levels import Level, Published, Scores, score
from varigraph.quantify.scores import accuracy, cross_entropy, per_class_nll

__all__ = [
    "Level",
    "Published",
    "Scores",
    "accuracy",
    "cross_entropy",
    "per_class_nll",
    "score",
]
