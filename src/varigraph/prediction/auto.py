"""``method="auto"``: the closed form where it holds, brute force where it does not."""

from __future__ import annotations

from dataclasses import replace

from varigraph.errors import MissingRuleError, TooLargeError
from varigraph.prediction.first_order.method import first_order
from varigraph.prediction.prediction import Prediction
from varigraph.prediction.question import Question
from varigraph.prediction.sampled.method import sampled

#: Draws where samples=0 takes the weights out, and something has to be drawn all the same.
DRAWS = 100


def auto(question: Question) -> Prediction:
    """First-order where every layer has a rule and its walks fit in memory, else sampled.

    ``prediction.method`` says which, and why.
    """
    try:
        answer, why = first_order(question), "every layer has a rule"
    except (MissingRuleError, TooLargeError) as error:
        if question.weights == "closed-form":
            raise  # asked for by name, and sampling has none
        drawn = sampled(replace(question, draws=question.draws or DRAWS))
        answer, why = drawn, error.problem.splitlines()[0].rstrip(":")
    return replace(answer, method=f"{answer.method}: {why}")
