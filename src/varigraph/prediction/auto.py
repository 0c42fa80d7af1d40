"""``method="auto"``: the closed form where it holds, brute force where it does not."""

from __future__ import annotations

from dataclasses import replace

import torch

from varigraph.errors import MissingRuleError, TooLargeError
from varigraph.prediction.first_order.method import first_order
from varigraph.prediction.prediction import Prediction
from varigraph.prediction.question import Question, silent
from varigraph.prediction.sampled.method import sampled

#: Draws where samples=0 takes the weights out, and something has to be drawn all the same.
DRAWS = 100
#: Draws that approximate rules are checked with, and the ratios of variances that pass.
FEW_DRAWS, PASSES = 32, (0.8, 1.25)


def auto(question: Question) -> Prediction:
    """First-order where every layer has a rule and its walks fit in memory, else sampled.

    Rules that are only approximate are held against a few draws first. ``prediction.method`` says
    which method it was, and why.
    """
    try:
        answer = first_order(question)
    except (MissingRuleError, TooLargeError) as error:
        if question.weights == "closed-form":
            raise  # asked for by name, and sampling has none
        return _drawn(question, error.problem.splitlines()[0].rstrip(":"))
    if answer.approximate:
        return _checked(answer, question)
    return replace(answer, method=f"{answer.method}: every layer has a rule")


def _drawn(question: Question, why: str) -> Prediction:
    answer = sampled(replace(question, draws=question.draws or DRAWS))
    return replace(answer, method=f"{answer.method}: {why}")


def _checked(answer: Prediction, question: Question) -> Prediction:
    """An answer by approximate rules, if a few draws agree with it; else draws."""
    try:
        few = sampled(replace(question, draws=FEW_DRAWS, progress=silent))
    except TooLargeError as error:
        why = f"not checked, because {error.problem.splitlines()[0]}"
        return replace(answer, method=f"{answer.method}: {why}")
    ratio = _ratio(few, answer)
    said = f"{FEW_DRAWS} draws have {ratio:.3g} times its variance"
    if PASSES[0] <= ratio <= PASSES[1] or question.weights == "closed-form":
        return replace(answer, method=f"{answer.method}: {said}")
    names = ", ".join(answer.approximate)
    return _drawn(question, f"the rule of {names} is approximate, and off here: {said}")


def _ratio(drawn: Prediction, closed: Prediction) -> float:
    """Of the variances of the logits, summed or one by one: whichever is farther from 1."""
    true, said = drawn.logits.var.double(), closed.logits.var.double()
    tiny = torch.finfo(closed.logits.var.dtype).tiny
    one_by_one = (true.clamp_min(tiny) / said.clamp_min(tiny)).mean()
    together = true.sum().clamp_min(tiny) / said.sum().clamp_min(tiny)
    return float(max(one_by_one, together, key=lambda ratio: abs(float(ratio.log()))))
