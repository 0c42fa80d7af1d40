"""One pass that records how every value responds to those before it."""

from __future__ import annotations

import warnings
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

import torch

from varigraph.moments import Gaussian, Propagation, StandIn, converted, propagating
from varigraph.moments.affine import Affine
from varigraph.moments.propagation import recorded
from varigraph.moments.tape import Drop, Scale, Tape
from varigraph.prediction.checks import check_output
from varigraph.prediction.injection import injected
from varigraph.prediction.masked import NO_DROPOUT
from varigraph.prediction.passes import answer_of, no_randomness_but_dropout
from varigraph.prediction.question import Question


@dataclass(frozen=True, eq=False)
class Linearised:
    """A network with its activations replaced by their averaged slopes.

    Args:
        output: the network's answer, mean and variance.
        tape: how it came about.
    """

    output: Gaussian
    tape: Tape


@dataclass(frozen=True)
class ClosedFormDropout:
    r"""Dropout as one more independent source: :math:`V[z h] = \frac{r}{1 - r} E[h^2]`.

    Args:
        tape: where the places are noted.
    """

    tape: Tape

    def __call__(self, x: Gaussian, rate: float) -> Gaussian:
        """The same mean with the variance that masks of this rate add."""
        added = rate / (1 - rate) * (x.mean.square() + x.var)
        if isinstance(x, Affine):
            out: Gaussian = x.spread_by(added)
        else:
            out = Gaussian(x.mean, x.var + added)
        self.tape.drops.append(Drop(out, added))
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
    tape, masked = Tape(), question.masked
    x = question.linear_features if exact else question.x
    tape.record(x)
    propagation = Propagation(
        question.links, ClosedFormDropout(tape), prepared=question.prepared, tape=tape
    )
    with converted(question.model, dropout_on=masked), ExitStack() as stack:
        if question.dropout is not None and masked:
            stack.enter_context(injected(question.model, question.dropout))
        with no_randomness_but_dropout(x.mean.device), propagating(propagation):
            out: Any = question.run(StandIn(x))
    check_output(answer_of(out), question.task)
    return Linearised(answer_of(out), tape)
