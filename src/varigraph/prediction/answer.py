"""What the logits of a closed form answer: class probabilities, or in regression themselves."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from torch import Tensor

from varigraph.moments import Gaussian
from varigraph.prediction.class_probabilities import active_parts, class_probabilities, divided
from varigraph.prediction.logits import CorrelatedLogits
from varigraph.prediction.prediction import Prediction, with_approximate
from varigraph.prediction.question import Question
from varigraph.prediction.sources.source import all_parts


def answer(
    logits: CorrelatedLogits, question: Question, *, method: str, approximate: Sequence[str] = ()
) -> Prediction:
    """The prediction that logits give: their softmax, or in regression the values themselves."""
    size, active = logits.mean.shape[0], active_parts(logits)
    return answer_by_blocks(
        [logits], size, question, active=active, method=method, approximate=approximate
    )


def answer_by_blocks(
    blocks: Iterable[CorrelatedLogits],
    nodes: int,
    question: Question,
    *,
    active: Sequence[str],
    method: str,
    approximate: Sequence[str] = (),
) -> Prediction:
    """The same from blocks of nodes, of which only one is there at a time.

    Args:
        blocks: logits of the nodes, one block after the other.
        nodes: how many they are together.
        question: what was asked.
        active: the parts that cause variance.
        method: how the logits came about.
        approximate: names of rules on the way that are only approximate.
    """
    found: dict[str, Tensor] = {}
    first = 0
    for block in blocks:
        rows = slice(first, first := first + len(block.mean))
        for name, values in _numbers(block, question, active).items():
            if name not in found:
                # Made before the work on later blocks: small tensors in between would keep the
                # memory of large ones from being used again.
                found[name] = values.new_zeros(nodes, values.shape[1])
            found[name][rows] = values
    return Prediction(
        mean=found["mean"],
        by_source={part: found[part] for part in all_parts()},
        logits=Gaussian(found["logits"], found["var"]),
        method=with_approximate(method, approximate),
        samples=0,
        task=question.task,
        approximate=tuple(approximate),
    )


def _numbers(
    logits: CorrelatedLogits, question: Question, active: Sequence[str]
) -> dict[str, Tensor]:  # [nodes, classes] each
    marginal = logits.marginal
    if question.task == "regression":
        mean, parts = logits.mean, divided(logits)
    else:
        mean, parts = class_probabilities(logits, active)
    return {"mean": mean, **parts, "logits": marginal.mean, "var": marginal.var}
