"""``method="auto"``: which method an answer takes, and how that is found out."""

from __future__ import annotations

from dataclasses import replace

from varigraph.errors import MissingRuleError, ModelError, TooLargeError, VarigraphError
from varigraph.options import place_of, warn
from varigraph.prediction.agreement import COINS, MASKS, NOISE, Wanted, agreement
from varigraph.prediction.first_order.method import first_order
from varigraph.prediction.network_call import came_from
from varigraph.prediction.passes import NO_DROPOUT
from varigraph.prediction.prediction import Prediction
from varigraph.prediction.question import Question, silent
from varigraph.prediction.sampled.method import Sample, by_sample, sample, sampled
from varigraph.prediction.sampled.tosses import FEWEST_ROUNDS, ROUND, Enough
from varigraph.prediction.sources.source import SOURCES

#: Draws where samples=0 takes the weights out, and something has to be drawn all the same.
DRAWS = 100
#: Rounds of draws in which links fail, at most where runs follow each other; how often a link
#: should fail in all of them, and how often it must if draws are to know anything of it.
MOST_ROUNDS = 5
FAILURES, FEWEST_FAILURES = 20, 3
#: Why class probabilities behind uncertain links are drawn.
FEW_VALUES = (
    "behind uncertain links class probabilities have few values, and closed forms take them as "
    "continuous"
)
#: What may be off where masks act.
UNDER_MASKS = "class probabilities under dropout are approximate"


def auto(question: Question) -> Prediction:
    """First-order where it is right on the scale of the answer, else sampled.

    Class probabilities behind uncertain links are drawn. All else is first-order where every layer
    has a rule and its walks fit in memory; rules that are only approximate, links and masks are
    held against draws first. ``prediction.method`` says which method it was, and why.
    """
    if (draws := draws_of_links(question)) > 0 and question.weights != "closed-form":
        try:
            enough = Enough(least=question.draws or DRAWS, most=_draws(question, draws))
            answer = sampled(replace(question, draws=enough.most), enough)
            return _noted(answer.because(FEW_VALUES), question)
        except ModelError:  # closed forms may do without what stands in the way of runs
            pass
    try:
        answer = first_order(question)
    except Exception as error:
        why = reason_to_draw(error, question)
        if why is None or question.weights == "closed-form":
            raise  # a mistake in the options, or asked for by name, and sampling has none
        return _drawn(question, why)
    wanted = _wanted(answer, question)
    if wanted is not None:
        return _checked(answer, question, wanted)
    return answer.because(_rules(answer))


def foreseen(question: Question) -> tuple[str, str]:
    """The method that ``auto`` would take, and why, as far as it is known without a draw."""
    if draws_of_links(question) > 0:
        return "sampled", FEW_VALUES
    try:
        answer = first_order(question)
    except (MissingRuleError, TooLargeError) as error:
        return "sampled", error.problem.splitlines()[0].rstrip(":")
    if _wanted(answer, question) is None:
        return "first-order", _rules(answer)
    return "first-order", f"if draws agree, since {_culprits(answer, question)}"


def _noted(answer: Prediction, question: Question) -> Prediction:
    """An answer drawn at once; a closed form would have said that there are no masks."""
    masks = [name for name, source in SOURCES.items() if source.masks]
    asked = question.samples > 0 and any(name in question.parts for name in masks)
    if asked and not any(bool(answer.by_source[name].any()) for name in masks):
        warn(NO_DROPOUT)
    return answer


def draws_of_links(question: Question) -> int:
    r"""How many draws show the class probabilities behind uncertain links; 0 where none are asked.

    .. math::
        \frac{20}{\bar q}, \qquad \bar q = \frac{\sum_l q_l^2}{\sum_l q_l}, \quad
        q_l = p_l (1 - p_l)

    in whole rounds, so that a link fails about twenty times, two rounds at least and five at most.
    Where coins are all that is drawn, rounds end sooner if they agree, and go on where runs go side
    by side (:class:`~varigraph.prediction.sampled.tosses.Enough`). Links that are hardly ever gone
    are left to closed forms: draws would know next to nothing.
    """
    if question.task == "regression" or not _has_coins(question):
        return 0
    assert question.links is not None
    prob = question.links.coins.prob.double()
    chance = prob * (1 - prob)
    typical = float(chance.square().sum() / chance.sum())
    if typical * ROUND * MOST_ROUNDS < FEWEST_FAILURES:
        return 0
    rounds = round(FAILURES / (typical * ROUND))
    return ROUND * min(max(rounds, FEWEST_ROUNDS), MOST_ROUNDS)


def _has_coins(question: Question) -> bool:
    """Whether links may be gone: a jump that activations may bend, however right its size is."""
    return question.links is not None and question.links.uncertain


def _wanted(answer: Prediction, question: Question) -> Wanted | None:
    """How near draws must be to a closed form that may be wrong; None where it need not be checked.

    Masks are large noise: they multiply, a few of them may decide about a node, and gates and
    products of a layer of no rule may bend them.
    """
    if _has_coins(question):
        return COINS
    masks = any(bool(answer.by_source[name].any()) for name, each in SOURCES.items() if each.masks)
    if masks and (answer.as_written or question.task != "regression"):
        return MASKS
    return NOISE if answer.approximate else None


def _rules(answer: Prediction) -> str:
    """How layers were followed."""
    if not answer.as_written:
        return "every layer has a rule"
    return f"every layer has a rule, but {', '.join(answer.as_written)} as written"


def reason_to_draw(error: Exception, question: Question) -> str | None:
    """What stands in the way of a closed form, and not of plain runs; None for other errors.

    Where it stands in their way too, they say so themselves.
    """
    if isinstance(error, ModelError):
        return error.problem.splitlines()[0].rstrip(":")
    if isinstance(error, VarigraphError) or not came_from(question.run, error):
        return None
    return f"{type(question.model).__name__} fails on uncertain features: {place_of(error)}"


def _draws(question: Question, least: int) -> int:
    """How many draws an answer takes that is drawn: as many as are asked for, or more."""
    return max(question.draws or DRAWS, least)


def _drawn(question: Question, why: str, least: int = 0) -> Prediction:
    answer = sampled(replace(question, draws=_draws(question, least)))
    return answer.because(why)


def _checked(answer: Prediction, question: Question, wanted: Wanted) -> Prediction:
    """An answer in closed form, if draws agree with it; else draws."""
    kept: list[Sample] = []

    def draw(draws: int) -> Sample:
        found = sample(replace(question, draws=draws, progress=silent))
        if draws == _draws(question, wanted.enough):
            kept.append(found)
        return found

    try:
        found = agreement(answer, draw, wanted)
    except ModelError as error:
        why = f"not checked, because {error.problem.splitlines()[0]}"
        return answer.because(why)
    if found.passes:
        return answer.because(str(found))
    why = f"{_culprits(answer, question)}, and off here: {found}"
    if question.weights == "closed-form":
        return answer.because(why)
    if kept:
        return by_sample(kept[0], question).because(why)
    return _drawn(question, why, wanted.enough)


def _culprits(answer: Prediction, question: Question) -> str:
    """What may be the matter with an answer in closed form."""
    names = ", ".join((*answer.approximate, *answer.as_written))
    if not names and not _has_coins(question):
        return UNDER_MASKS
    return f"the rule of {names or 'uncertain links'} is approximate"
