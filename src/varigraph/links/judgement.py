"""What the model of one fold says about the pairs that were kept from it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from torch import Tensor

from varigraph.links.calibration import calibration
from varigraph.links.folds import Fold
from varigraph.links.scorer import Scorer, Tell


class Make(Protocol):
    """Makes the model of a fold."""

    def __call__(self, links: Tensor, *, seed: int) -> Scorer:
        """A new scorer that may see these links, ``[2, links]``."""


@dataclass(frozen=True, eq=False)
class Judgement:
    """Probabilities at balanced odds, in the order of the fold's pairs.

    Args:
        links: those of the links, double, ``[scored links]``.
        others: those of the non-links, double, ``[scored non-links]``.
        calibration: the way in which scores became probabilities.
    """

    links: Tensor
    others: Tensor
    calibration: str


def judged(fold: Fold, make: Make, tell: Tell) -> Judgement:
    """Trains and calibrates a model on what it may see, and lets it judge the rest."""
    scorer = make(fold.structure, seed=fold.seed)
    scorer.fit(fold.train.pairs, fold.train.real, fold.held.pairs, fold.held.real, tell)
    calibrate = calibration(scorer.logits(fold.held.pairs), fold.held.real, seed=fold.seed)
    prob = calibrate(scorer.logits(fold.scored.pairs))
    return Judgement(prob[fold.scored.real], prob[~fold.scored.real], calibrate.name)
