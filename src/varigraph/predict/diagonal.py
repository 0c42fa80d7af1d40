"""``method="diagonal"``: the paper's closed form, all numbers taken as independent."""

from __future__ import annotations

import operator
import warnings
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from functools import reduce

import torch
from torch import Tensor

from varigraph.errors import OptionError
from varigraph.moments import Gaussian, converted
from varigraph.moments.softmax import class_probabilities, normal_points
from varigraph.predict.checks import check_nodes, check_output
from varigraph.predict.injection import injected
from varigraph.predict.masks import draw_masks
from varigraph.predict.mixture import Mixture
from varigraph.predict.passes import Passes
from varigraph.predict.prediction import Prediction
from varigraph.predict.question import Question

NO_DROPOUT = (
    "the network has no dropout, so its weights are taken as certain and the epistemic variance "
    "is 0; give dropout=0.1 to inject some, or samples=0 to say that this is meant"
)


def diagonal(question: Question) -> Prediction:
    r"""Mean and variance by assumed density filtering and T dropout masks (equation 13).

    .. math::
        \text{total} = \frac{1}{T} \sum_t v_t + \frac{1}{T} \sum_t (m_t - \bar m)^2

    Every number in the network gets the mean and variance that its layer's rule computes from
    those before it, as if those were independent. Cheap, and it ranks nodes well; on trained
    networks hidden numbers move together, and the size of the variance can be far too small.

    The first sum is the aleatoric part, the second that of the weights. Features and links alone
    are the first sum with everything else held at its mean; what is left of it is interaction.
    """
    answer, logits, plain = _mixtures(question)
    features, links = _alone(question, plain)
    return Prediction(
        mean=answer.mean,
        by_source={
            "features": features,
            "links": links,
            "weights": answer.between,
            "interactions": answer.within - features - links,
        },
        logits=logits.total,
        method="diagonal",
        samples=question.samples,
        task=question.task,
    )


def _alone(question: Question, plain: Gaussian) -> tuple[Tensor, Tensor]:
    """Variance due to features alone and to links alone; ``plain`` has both and no masks."""
    noisy, uncertain = bool(question.x.var.any()), question.links is not None
    if noisy and uncertain:
        alone = [_mixtures(question.only(source))[2].var for source in ("features", "links")]
        return alone[0], alone[1]
    none = torch.zeros_like(plain.var)
    return (plain.var, none) if noisy else (none, plain.var)


def _mixtures(question: Question) -> tuple[Mixture, Mixture, Gaussian]:
    """Moments of the answer and of the logits over all masks, and of the answer without masks."""
    sampled = question.samples > 0
    with torch.no_grad(), converted(question.model, dropout_on=sampled), ExitStack() as stack:
        if question.dropout is not None and sampled:
            _refuse_second_dropout(question)
            stack.enter_context(injected(question.model, question.dropout))
        passes = Passes(question.run, question.x, question.links)
        out = passes.without_masks()
        check_output(out, question.task)
        rows = check_nodes(question.nodes, len(out))
        logits, answers = [], []
        for outputs, masks in _outputs(passes, out, question):
            picked = outputs if rows is None else outputs[:, rows]
            logits.append(Mixture.of(picked))
            answers.append(Mixture.of(_answer(picked, question, masks)))
        plain = Gaussian(out.mean[None], out.var[None])
        plain = _answer(plain if rows is None else plain[:, rows], replace(question, samples=0))
    return reduce(operator.add, answers), reduce(operator.add, logits), plain[0]


def _answer(outputs: Gaussian, question: Question, masks: slice = slice(None)) -> Gaussian:
    if question.task == "regression":
        return outputs
    points = normal_points(max(question.samples, 1), outputs.mean.shape[-1])
    return class_probabilities(outputs, points[masks])


def _outputs(
    passes: Passes, plain: Gaussian, question: Question
) -> Iterator[tuple[Gaussian, slice]]:
    """Outputs ``[masks, nodes, classes]`` under batches of masks, and which masks those are."""
    if question.samples == 0 or not passes.sites:
        if question.samples > 0:
            warnings.warn(NO_DROPOUT, stacklevel=6)
        yield Gaussian(plain.mean[None], plain.var[None]), slice(0, 1)
        return
    batch = max(1, question.memory // passes.bytes_per_mask())
    for start in range(0, question.samples, batch):
        chosen = range(start, min(start + batch, question.samples))
        masks = [
            draw_masks(site, place, chosen, seed=question.seed).to(plain.mean)
            for place, site in enumerate(passes.sites)
        ]
        mean, var = torch.vmap(passes.with_masks)(*masks)
        yield Gaussian(mean, var), slice(chosen.start, chosen.stop)


def _refuse_second_dropout(question: Question) -> None:
    passes = Passes(question.run, question.x, question.links)
    passes.without_masks()
    if passes.sites:
        raise OptionError(
            f"dropout={question.dropout} is for networks without dropout; this one has its own, "
            f"of rate {passes.sites[0].rate}",
            "leave dropout= out",
        )
