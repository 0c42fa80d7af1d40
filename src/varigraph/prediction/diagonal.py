"""``method="diagonal"``: the paper's closed form, all numbers taken as independent."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from varigraph.moments import Gaussian
from varigraph.moments.activations import integrated
from varigraph.moments.softmax import class_probabilities, normal_points
from varigraph.prediction.linearised import linearised
from varigraph.prediction.logits import CorrelatedLogits
from varigraph.prediction.passes import over_masks, prepared_passes
from varigraph.prediction.prediction import Prediction, answer_by_blocks, with_approximate
from varigraph.prediction.question import Question, check_nodes
from varigraph.prediction.sources.source import INTERACTIONS, SOURCES, considered
from varigraph.prediction.tasks import SIGMOIDS, check_output


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
    if question.weights == "closed-form":
        return _without_sampling(question)
    answers, logits, plain, approximate = _mixtures(question)
    alone = _alone(question, plain)
    none = torch.zeros_like(plain.var[:1]).expand_as(plain.var)
    by_source = {
        name: answers.between if SOURCES[name].masks else alone.get(name, none)
        for name in question.divided
    }
    rest = answers.within.clone()
    for name, var in by_source.items():
        if not SOURCES[name].masks:
            rest = rest.sub_(var)
    by_source[INTERACTIONS] = rest
    return Prediction(
        mean=_by_nodes(answers.mean),
        by_source={source: _by_nodes(var) for source, var in by_source.items()},
        logits=logits.total,
        method=with_approximate("diagonal", approximate),
        samples=question.samples,
        task=question.task,
        approximate=approximate,
    )


def _by_nodes(x: Tensor) -> Tensor:  # [nodes, classes]
    """The same with the classes of a node side by side in memory, unless all nodes share them."""
    return x if 0 in x.stride() else x.contiguous()


def _without_sampling(question: Question) -> Prediction:
    """The same with dropout as one more independent source of variance, in one pass."""
    with torch.no_grad():
        network = linearised(question, exact=False)
        whole = network.output
        alone = {name: _variance(question.only(name)) for name in question.divided}
        rest = whole.var - torch.stack(list(alone.values())).sum(0)
        rows = check_nodes(question.nodes, len(whole))
        chosen = slice(None) if rows is None else rows
        variances = {**alone, INTERACTIONS: rest}
        # Of all nodes: the answer is the same whichever are asked for.
        active = [part for part, var in variances.items() if bool(var.any())]
        parts = {part: torch.diag_embed(var[chosen]) for part, var in variances.items()}
    logits, names = CorrelatedLogits(whole.mean[chosen], parts), network.approximate
    return answer_by_blocks(
        [logits], len(logits.mean), question, active=active, method="diagonal", approximate=names
    )


def _variance(question: Question) -> Tensor:
    return linearised(question, exact=False).output.var


def _alone(question: Question, plain: Gaussian) -> dict[str, Tensor]:
    """Variance due to what is uncertain beside the masks, one by one; ``plain`` has none."""
    others = [source for source in considered(question) if not source.masks]
    uncertain = [source.name for source in others if source.uncertain(question)]
    if len(uncertain) == 1:
        return {uncertain[0]: plain.var}
    return {name: _mixtures(question.only(name))[2].var for name in uncertain}


def _mixtures(question: Question) -> tuple[Mixture, Mixture, Gaussian, tuple[str, ...]]:
    """Moments of the answer and of the logits over all masks, of the answer without masks.

    And the names of rules that are only approximate.
    """
    logits = answers = None
    with torch.no_grad(), prepared_passes(question) as passes:
        out = passes.without_masks()
        check_output(out, question.task, logits=passes.logits)
        rows = check_nodes(question.nodes, len(out))
        count = question.samples if passes.sites else 1

        def mixed(outputs: Gaussian, masks: slice) -> tuple[Mixture, Mixture]:
            picked = outputs if rows is None else outputs[:, rows]
            return Mixture.of(picked), Mixture.of(_answer(picked, question, count, masks))

        for logit, answer in over_masks(passes, out, question, mixed):
            if logits is None or answers is None:
                logits, answers = logit.owned(), answer.owned()
            else:
                logits += logit
                answers += answer
        assert logits is not None  # there is a pass without masks at least
        assert answers is not None
        if answers.count == 1 and not passes.sites:  # no masks: this is the answer without them
            plain = Gaussian(answers.mean, answers.within)
            return answers, logits, plain, passes.approximate
        plain = Gaussian(out.mean[None], out.var[None])
        plain = _answer(plain if rows is None else plain[:, rows], question)
    return answers, logits, plain[0], passes.approximate


def _answer(
    outputs: Gaussian, question: Question, count: int = 1, masks: slice = slice(None)
) -> Gaussian:
    """The answer under some of so many masks."""
    if question.task == "regression":
        return outputs
    if question.task in SIGMOIDS:
        return integrated(torch.sigmoid, outputs)
    points = normal_points(max(count, 1), outputs.mean.shape[-1])
    return class_probabilities(outputs, points[masks])


@dataclass(frozen=True, eq=False)
class Mixture:
    r"""Running moments of a mixture of Gaussians (law of total variance).

    Args:
        count: number T of components so far.
        mean: :math:`\bar m = \frac{1}{T} \sum m_t`.
        within: :math:`\frac{1}{T} \sum v_t`, the mean of the variances.
        between: :math:`\frac{1}{T} \sum (m_t - \bar m)^2`, the variance of the means.
    """

    count: int
    mean: Tensor
    within: Tensor
    between: Tensor

    @classmethod
    def of(cls, components: Gaussian) -> Mixture:
        """Moments over the leading axis, ``[samples, ...]``.

        Around the first of them, so that the rounding of a mean is not taken for variance.
        """
        first = components.mean[0]
        if len(components) == 1:
            return cls(1, first, components.var[0], torch.zeros_like(first))
        around = components.mean - first
        shift = around.mean(0)
        between = around.square_().mean(0).sub_(shift.square()).clamp_min_(0)
        return cls(len(components), first + shift, components.var.mean(0), between)

    @classmethod
    def of_one(cls, value: Tensor) -> Mixture:
        """A single value that is certain."""
        none = torch.zeros_like(value)
        return cls(1, value, none, none.clone())

    def owned(self) -> Mixture:
        """The same in tensors of its own, so that more can be taken in."""
        return replace(self, mean=self.mean.clone(), within=self.within.clone())

    def __iadd__(self, other: Mixture) -> Mixture:
        """Take in another set, in place; around the means, so that nothing cancels."""
        count = self.count + other.count
        b = other.count / count
        shift = other.mean - self.mean
        between = self.between.lerp_(other.between, b)
        between.addcmul_(shift, shift, value=b * (1 - b))
        mean, within = self.mean.lerp_(other.mean, b), self.within.lerp_(other.within, b)
        return Mixture(count, mean, within, between)

    @property
    def total(self) -> Gaussian:
        """Mean and total variance."""
        return Gaussian(self.mean, self.within + self.between)
