"""One pass that records how every value responds to those before it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from varigraph.moments import Gaussian, Propagation, StandIn, propagating
from varigraph.moments.propagation import recorded
from varigraph.moments.tape import Noise, Tape
from varigraph.prediction.network_call import Answer, answer_of, no_randomness_but_dropout, opened
from varigraph.prediction.question import Question
from varigraph.prediction.sources.source import considered, entered, entering
from varigraph.prediction.sources.weights import closed_form_dropout
from varigraph.prediction.tasks import check_output


@dataclass(frozen=True, eq=False)
class Linearised:
    """A network with its activations replaced by their averaged slopes.

    Args:
        output: the network's answer, mean and variance.
        tape: how it came about.
        approximate: names of rules on the way that are only approximate.
        as_written: kinds of layers on the way that have no rule.
    """

    output: Gaussian
    tape: Tape
    approximate: tuple[str, ...] = ()
    as_written: tuple[str, ...] = ()


def linearised(question: Question, *, exact: bool = True) -> Linearised:
    """Run the model once, recording responses.

    Args:
        question: what is asked.
        exact: keep the variance due to the features exact while values are linear in them; else
            all numbers count as independent, as in the diagonal method.
    """
    found = one_pass(question, exact=exact)
    for source in considered(question):
        source.check_noises(found.tape.noises)
        source.check_rules(question)
    return found


def one_pass(question: Question, *, exact: bool = True) -> Linearised:
    """The same without a word about networks that have no dropout.

    Args:
        question: what is asked; asked again, its neighbourhoods are not prepared anew.
        exact: as in :func:`linearised`.
    """
    tape = Tape()
    propagation = _propagation(question, tape.noises, tape)
    out = _run(question, question.linear_features if exact else question.x, propagation)
    check_output(out.value, question.task, logits=out.logits)
    tape.keep_way_to(out.value)
    names = tuple(propagation.approximate), tuple(propagation.as_written)
    return Linearised(out.value, tape, *names)


def added_noise(question: Question) -> list[Noise]:
    """Where noise is added on the way, from a pass that keeps nothing else.

    Args:
        question: what is asked; all numbers count as independent.
    """
    noises: list[Noise] = []
    _run(question, question.x, _propagation(question, noises, None))
    return noises


def _propagation(question: Question, noises: list[Noise], tape: Tape | None) -> Propagation:
    return Propagation(
        question.links,
        closed_form_dropout,
        prepared=question.prepared,
        tape=tape,
        noises=noises,
        masked=question.masked,
        followed=question.followed,
    )


def _run(question: Question, x: Gaussian, propagation: Propagation) -> Answer:
    unseen = no_randomness_but_dropout(x.mean.device)
    with opened(question, by_rules=True), unseen, propagating(propagation):
        out: Any = question.run(StandIn(entering(recorded(x), question)), *entered(question))
        return answer_of(out, question.task)
