"""What the logits of a closed form answer: class probabilities, or in regression themselves."""

from __future__ import annotations

from varigraph.prediction.class_probabilities import class_probabilities
from varigraph.prediction.logits import CorrelatedLogits, diagonal
from varigraph.prediction.prediction import PARTS, Prediction
from varigraph.prediction.question import Question


def answer(logits: CorrelatedLogits, question: Question, *, method: str) -> Prediction:
    """The prediction that logits give: their softmax, or in regression the values themselves."""
    if question.task == "regression":
        mean = logits.mean
        by_source = {part: diagonal(logits.shares[part]) for part in PARTS}
    else:
        mean, by_source = class_probabilities(logits)
    return Prediction(
        mean=mean,
        by_source=by_source,
        logits=logits.marginal,
        method=method,
        samples=0,
        task=question.task,
    )
