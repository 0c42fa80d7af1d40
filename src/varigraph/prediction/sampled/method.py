"""``method="sampled"``: brute force, exact for any network."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from varigraph.choices import Task
from varigraph.errors import ModelError, OptionError
from varigraph.moments import Gaussian
from varigraph.options import warn
from varigraph.prediction.numbering import numbering
from varigraph.prediction.prediction import Prediction, StandardErrors
from varigraph.prediction.processor import without_gaps
from varigraph.prediction.question import Question, check_nodes
from varigraph.prediction.sampled.draws import Design
from varigraph.prediction.sampled.estimates import (
    FEWEST_BATCHES,
    Estimate,
    Estimates,
    SampledMoments,
)
from varigraph.prediction.sampled.network import opened_network
from varigraph.prediction.sampled.plan import Plan, in_groups, outputs_of
from varigraph.prediction.sampled.shortcuts import Explored, explored, in_step
from varigraph.prediction.sampled.tosses import ROUND, Enough
from varigraph.prediction.sources.source import INTERACTIONS
from varigraph.prediction.tasks import check_output, probabilities

Watch = Callable[[Tensor], None]
#: Numbers that are summed at a time: few enough to fit a cache, or what keeps a GPU busy.
AT_ONCE = {"cpu": 2**18, "cuda": 2**25}
#: Nodes by which rounds of draws are compared, evenly among all.
JUDGED = 512
CERTAIN = (
    "nothing is uncertain: the features have no noise, the links no chances below 1 and the "
    "network no dropout; all variances are 0"
)


def sampled(question: Question, enough: Enough | None = None) -> Prediction:
    r"""Mean, variance and its division over sources, by drawing everything that is uncertain.

    .. math::
        \hat\mu = \frac1n \sum_i y_i \qquad
        \hat V_s = \widehat{\mathrm{Cov}}(y, y') = V[E[y \mid s]]

    for runs y and y' that share the draw of source s and nothing else (:class:`Design`). All
    figures are unbiased at any number of draws, so that a share that is nearly zero may come out
    below zero; their standard errors are in ``std_error``. The parts add up to the total.

    Links fail in their share of the draws (:class:`~varigraph.prediction.sampled.tosses.Round`).
    Figures are nearer to the truth for it than standard errors say, which take draws as having
    nothing to do with each other; and variances are up to a hundredth too large.
    """
    return by_sample(sample(question, enough=enough), question)


def by_sample(found: Sample, question: Question) -> Prediction:
    """The answer that many runs give."""
    return answered(
        found.logits,
        found.answer,
        sources=found.sources,
        parts=question.parts,
        runs=found.runs,
        task=question.task,
    )


@dataclass(frozen=True, eq=False)
class Sample:
    """What many runs show.

    Args:
        answer: moments of probabilities, or of the output itself in regression.
        logits: moments of the output before the softmax or the sigmoids.
        sources: what was drawn.
        runs: how often.
    """

    answer: SampledMoments
    logits: SampledMoments
    sources: tuple[str, ...]
    runs: int


def sample(question: Question, watch: Watch | None = None, enough: Enough | None = None) -> Sample:
    """Run a network on many draws.

    Args:
        question: what is asked.
        watch: is shown the logits of all runs, ``[some runs, nodes, classes]`` at a time.
        enough: knows when to stop, where coins alone are drawn.

    Raises:
        OptionError: fewer than two draws are asked for, or the links alone take all memory.
        TooLargeError: the work does not fit in the memory.
        ModelError: model and graph do not fit together.
    """
    if question.draws < 2:
        raise OptionError(
            f'samples={question.draws} is too few for method="sampled", which draws everything',
            "samples=100, or any number from 2 on",
        )
    look = explored if numbering() is None else in_step
    with without_gaps(), opened_network(question) as network, look(network) as found:
        return _summed(found, watch, enough)


def _summed(found: Explored, watch: Watch | None, enough: Enough | None) -> Sample:
    question = found.network.question
    running = found.network.running()
    plain = found.network.once({}, running=running)
    check_output(Gaussian.certain(plain), question.task, logits=running.looked_through)
    index, output = check_nodes(question.nodes, len(plain)), plain.numel()
    like = plain if index is None else plain[index]
    design = _design(found, enough)
    plan = Plan.of(found, design, output=output, asked=like.numel())
    network = replace(found.network, keeps_masks=plan.keeps_masks, tight=plan.tight)
    found = replace(found, network=network)
    logits = SampledMoments(like, design, by_source=False)
    answers = SampledMoments(like, design)
    # Whoever is asked about: a node's answer does not depend on which others are.
    some = slice(None, None, 1 + len(plain) // JUDGED)
    judged = SampledMoments(plain[some], design) if design.rounds else None
    del plain, like
    outputs = _told(outputs_of(found, design, plan.at_once), question, design.runs)
    done, part = 0, ROUND if design.rounds else 0
    for runs in in_groups(outputs, design.group, plan.together, part):
        done += sum(map(len, runs))
        for rows in logits.blocks(_at_once(runs[0].device) // sum(map(len, runs))):
            block = torch.cat([run[:, rows if index is None else index[rows]] for run in runs])
            logits.add(block, rows)
            answers.add(_probabilities(block, question.task), rows)
        if judged is not None:
            judged.add(_probabilities(torch.cat([run[:, some] for run in runs]), question.task))
        if watch is not None:
            watch(torch.cat([run if index is None else run[:, index] for run in runs]))
        runs.clear()
        if judged is not None and _are_enough(judged, done, enough):
            break
    logits.end()
    answers.end()
    if not logits.finite:
        raise ModelError(
            "the answer is not a finite number for some of the draws",
            "check what the network does far from its training data (log, division)",
        )
    if not found.sources:
        warn(CERTAIN)
    return Sample(answers, logits, found.sources, done if found.sources else 0)


def _are_enough(judged: SampledMoments, done: int, enough: Enough | None) -> bool:
    if enough is None or done % ROUND:
        return False
    return enough.reached(judged.by_round(done // ROUND, ROUND))


def _design(found: Explored, enough: Enough | None) -> Design:
    """The runs that there are; rounds of them, where these may be enough."""
    draws = found.network.question.draws if found.sources else FEWEST_BATCHES
    if enough is None or len(found.sources) != 1:
        return Design(found.sources, draws)
    rounds = enough.rounds(beside=found.batched)
    return Design(found.sources, rounds * ROUND, rounds)


def _at_once(device: torch.device) -> int:
    return AT_ONCE.get(device.type, AT_ONCE["cpu"])


def _told(outputs: Iterator[Tensor], question: Question, total: int) -> Iterator[Tensor]:
    """The same outputs; the bar of progress moves with each."""
    done = 0
    for output in outputs:
        done += len(output)
        question.progress(done, total)
        held = [output]
        del output
        yield held.pop()  # nothing is held here while others work with it


def _probabilities(logits: Tensor, task: Task) -> Tensor:  # [runs, nodes, classes]
    """By task. With as few classes as usual torch's own softmax takes three times as long."""
    if task != "classification":
        return probabilities(logits, task)
    powers = (logits - logits.amax(-1, keepdim=True)).exp_()
    return powers.div_(powers.sum(-1, keepdim=True))


def answered(
    logits: SampledMoments,
    answers: SampledMoments,
    *,
    sources: tuple[str, ...],
    parts: Sequence[str],
    runs: int,
    task: Task,
) -> Prediction:
    """The figures of all nodes; the sums are given up on the way, so that there is room for them.

    Args:
        logits: moments of the output before the softmax or the sigmoids.
        answers: moments of probabilities, or of the output itself in regression.
        sources: what was drawn.
        parts: of the variance, shown whether drawn or not.
        runs: how often.
        task: what the output means.
    """
    of_logits = _written(logits, ("mean", "total"), ())
    known = (*sources, INTERACTIONS) if len(sources) > 1 else ()
    values = ("mean", *known) if len(sources) != 1 else ("mean", "total")
    errors = ("mean", "total", *known) if answers.batches >= FEWEST_BATCHES else ()
    found = _written(answers, values, errors)
    mean = found["mean"]
    # One number, as often as it is needed: these take no memory.
    none, unknown = mean.new_zeros(()).expand_as(mean), mean.new_tensor(float("nan"))
    by_source, error_by_source = dict.fromkeys(parts, none), dict.fromkeys(parts, none)
    for part in known or sources:
        name = part if known else "total"
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
    """Estimates and errors by their names."""
    names = (*values, *(f"error of {name}" for name in errors))
    places = {name: moments.place_for(number) for number, name in enumerate(names)}
    for rows in moments.blocks(_at_once(moments.device) // moments.batches):
        estimates = _estimates(moments.estimates(rows))
        block = [estimates[name].value for name in values]
        block += [estimates[name].error for name in errors]
        for place, figure in zip(places.values(), block, strict=True):
            place[rows] = figure
    moments.forget()
    return places


def _estimates(figures: Estimates) -> dict[str, Estimate]:
    found: dict[str, Estimate] = {"mean": figures.mean, "total": figures.total}
    if figures.shares:
        found.update(figures.shares.items())
        found[INTERACTIONS] = figures.interactions
    return found
