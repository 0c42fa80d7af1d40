"""One pass that records how every value responds to those before it."""

from __future__ import annotations

import warnings
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from varigraph.moments import Gaussian, Propagation, StandIn, converted, propagating
from varigraph.moments.affine import Affine
from varigraph.moments.operators import Scale
from varigraph.moments.propagation import recorded
from varigraph.moments.tape import Drop, Tape
from varigraph.prediction.checks import check_output
from varigraph.prediction.injection import injected, refuse_own_dropout
from varigraph.prediction.masked import NO_DROPOUT
from varigraph.prediction.passes import answer_of, no_randomness_but_dropout
from varigraph.prediction.question import Question


@dataclass(frozen=True, eq=False)
class Linearised:
    """A network with its activations replaced by their averaged slopes.

    Args:
        output: the network's answer, mean and variance.
        tape: how it came about.
        approximate: names of rules on the way that are only approximate.
    """

    output: Gaussian
    tape: Tape
    approximate: tuple[str, ...] = ()


@dataclass(frozen=True)
class ClosedFormDropout:
    r"""Dropout as one more independent source: :math:`V[z h] = \frac{r}{1 - r} E[h^2]`.

    Args:
        drops: where the places are noted.
    """

    drops: list[Drop]

    def __call__(self, x: Gaussian, rate: float) -> Gaussian:
        """The same mean with the variance that masks of this rate add."""
        refuse_own_dropout(rate)
        added = rate / (1 - rate) * (x.mean.square() + x.var)
        if isinstance(x, Affine):
            out: Gaussian = x.spread_by(added)
        else:
            out = Gaussian(x.mean, x.var + added)
        self.drops.append(Drop(out, added))
        return recorded(out, (x, Scale(torch.ones_like(x.mean[0]))))


def linearised(question: Question, *, exact: bool = True) -> Linearised:
    """Run the model once, recording responses.

    Args:
        question: what is asked.
        exact: keep the variance due to the features exact while values are linear in them; else
            all numbers count as independent, as in the diagonal method.
    """
    found = one_pass(question, exact=exact)
    if question.masked and not found.tape.drops:
        warnings.warn(NO_DROPOUT, stacklevel=6)
    return found


def one_pass(question: Question, *, exact: bool = True) -> Linearised:
    """The same without a word about networks that have no dropout.

    Args:
        question: what is asked; asked again, its neighbourhoods are not prepared anew.
        exact: as in :func:`linearised`.
    """
    tape = Tape()
    x = question.linear_features if exact else question.x
    tape.record(x)
    propagation = _propagation(question, tape.drops, tape)
    out = _run(question, x, propagation)
    check_output(out, question.task)
    return Linearised(out, tape, tuple(propagation.approximate))


def added_by_masks(question: Question) -> list[Tensor]:
    """The variance that dropout adds at each of its places, from a pass that keeps nothing else.

    Args:
        question: what is asked; all numbers count as independent.
    """
    drops: list[Drop] = []
    _run(question, question.x, _propagation(question, drops, None))
    return [drop.added for drop in drops]


def _propagation(question: Question, drops: list[Drop], tape: Tape | None) -> Propagation:
    dropout = ClosedFormDropout(drops)
    return Propagation(question.links, dropout, prepared=question.prepared, tape=tape)


def _run(question: Question, x: Gaussian, propagation: Propagation) -> Gaussian:
    with converted(question.model, dropout_on=question.masked), ExitStack() as stack:
        if question.dropout is not None and question.masked:
            stack.enter_context(injected(question.model, question.dropout))
        with no_randomness_but_dropout(x.mean.device), propagating(propagation):
            out: Any = question.run(StandIn(x))
    return answer_of(out, question.task)
