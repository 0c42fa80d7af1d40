"""Who runs: a row of the table for each."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

from varigraph.prediction import predict
from varigraph.prediction.question import Source
from varigraph.studies.speed import by_hand, forwards, torch_uncertainty
from varigraph.studies.speed.answer import Answer
from varigraph.studies.speed.subject import Subject

PLAIN, CSR = "plain forward", "plain forward, CSR"
ONE_PASS, DIAGONAL = "vg: diagonal, one pass", "vg: diagonal, T masks"
FEATURES: tuple[Source, ...] = ("features",)
WEIGHTS: tuple[Source, ...] = ("weights",)
BOTH: tuple[Source, ...] = ("features", "weights")


@dataclass(frozen=True)
class Contender:
    """One way to an answer.

    Args:
        name: in the table.
        run: does it once.
        sources: what its variances are about; none for a plain forward.
        loops: whether it goes from mask to mask, so that a mask takes as long as any other.
    """

    name: str
    run: Callable[[Subject], Answer]
    sources: tuple[Source, ...] = ()
    loops: bool = False


def _predicted(subject: Subject, **options: Any) -> Answer:
    found = predict(
        subject.model, subject.graph, seed=subject.seed, memory=subject.memory, **options
    )
    return Answer(found.logits.mean, found.logits.var, found.mean, found.total)


def _masked(subject: Subject, method: str) -> Answer:
    return _predicted(subject, method=method, samples=subject.masks)


ALL = (
    Contender(PLAIN, forwards.plain),
    Contender(CSR, forwards.plain_csr),
    Contender("dropout, T passes", forwards.dropout_loop, WEIGHTS, loops=True),
    Contender("dropout, T passes, CSR", forwards.dropout_loop_csr, WEIGHTS, loops=True),
    Contender("dropout, vmap, CSR", forwards.dropout_vmap, WEIGHTS, loops=True),
    Contender("torch-uncertainty, CSR", torch_uncertainty.wrapped, WEIGHTS, loops=True),
    Contender("equation 13 by hand", by_hand.equation_13, BOTH, loops=True),
    Contender("equation 13 by hand, CSR", by_hand.equation_13_csr, BOTH, loops=True),
    Contender(
        ONE_PASS, partial(_predicted, method="diagonal", sources=FEATURES, samples=0), FEATURES
    ),
    Contender(DIAGONAL, partial(_masked, method="diagonal"), BOTH),
    Contender("vg: covariance", partial(_predicted, method="covariance"), BOTH),
    Contender(
        "vg: first-order, features",
        partial(_predicted, method="first-order", sources=FEATURES),
        FEATURES,
    ),
    Contender("vg: first-order", partial(_predicted, method="first-order"), BOTH),
    Contender("vg: sampled, T draws", partial(_masked, method="sampled"), BOTH),
)
BY_NAME = {contender.name: contender for contender in ALL}


def present() -> list[Contender]:
    """Those that can run here."""
    there = torch_uncertainty.installed()
    return [each for each in ALL if there or each.run is not torch_uncertainty.wrapped]
