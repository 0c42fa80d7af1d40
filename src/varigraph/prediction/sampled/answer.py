"""The prediction that sums of runs give, a block of nodes at a time."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor

from varigraph.moments import Gaussian
from varigraph.prediction.prediction import Prediction, StandardErrors, Task
from varigraph.prediction.sampled.figures import FEWEST_BATCHES, Estimate, Figures
from varigraph.prediction.sampled.moments import SampledMoments
from varigraph.prediction.sources.source import INTERACTIONS, all_parts

#: Numbers in the sums of a block.
AT_ONCE = 2**18


def answered(
    logits: SampledMoments,
    answers: SampledMoments,
    *,
    sources: tuple[str, ...],
    runs: int,
    task: Task,
) -> Prediction:
    """The figures of all nodes; the sums are given up on the way, so that there is room for them.

    Args:
        logits: moments of the output before the softmax.
        answers: moments of class probabilities, or of the output itself in regression.
        sources: what was drawn.
        runs: how often.
        task: what the output means.
    """
    of_logits = _written(logits, ("mean", "total"), ())
    parts = (*sources, INTERACTIONS) if len(sources) > 1 else ()
    values = ("mean", *parts) if len(sources) != 1 else ("mean", "total")
    errors = ("mean", "total", *parts) if answers.batches >= FEWEST_BATCHES else ()
    found = _written(answers, values, errors)
    mean = found["mean"]
    # One number, as often as it is needed: these take no memory.
    none, unknown = mean.new_zeros(()).expand_as(mean), mean.new_tensor(float("nan"))
    by_source, error_by_source = dict.fromkeys(all_parts(), none), dict.fromkeys(all_parts(), none)
    for part in parts or sources:
        name = part if parts else "total"
        by_source[part] = found[name]
        error_by_source[part] = found.get(f"error of {name}", unknown.expand_as(mean))
    return Prediction(
        mean=mean,
        by_source=by_source,
        logits=Gaussian(of_logits["mean"], of_logits["total"]),
        method="sampled",
        samples=runs,
        task=task,
        std_error=StandardErrors(
            mean=found.get("error of mean", unknown.expand_as(mean)),
            total=found.get("error of total", unknown.expand_as(mean)),
            by_source=error_by_source,
        ),
    )


def _written(
    moments: SampledMoments, values: Sequence[str], errors: Sequence[str]
) -> dict[str, Tensor]:
    """Figures and errors by their names."""
    names = (*values, *(f"error of {name}" for name in errors))
    places = {name: moments.place_for(number) for number, name in enumerate(names)}
    for rows in moments.blocks(AT_ONCE // moments.batches):
        estimates = _estimates(moments.figures(rows))
        block = [estimates[name].value for name in values]
        block += [estimates[name].error for name in errors]
        for place, figure in zip(places.values(), block, strict=True):
            place[rows] = figure
    moments.forget()
    return places


def _estimates(figures: Figures) -> dict[str, Estimate]:
    found: dict[str, Estimate] = {"mean": figures.mean, "total": figures.total}
    if figures.shares:
        found.update(figures.shares.items())
        found[INTERACTIONS] = figures.interactions
    return found
