"""One model for each fold; together they judge every pair, and none judges what it has seen."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from varigraph.links.fold_files import FoldFiles
from varigraph.links.folds import Folds
from varigraph.links.judgement import Judgement, Make, judged

#: Told the fraction of the work that is done, from 0 to 1, and what is being done.
Progress = Callable[[float, str], None]


@dataclass(frozen=True, eq=False)
class Crossfit:
    """Probabilities of all links and of as many non-links, at balanced odds.

    Args:
        links: one for each link, double, ``[links]``.
        others: one for each non-link, double, ``[links]``.
        calibration: how the scores of each fold became probabilities.
    """

    links: Tensor
    others: Tensor
    calibration: tuple[str, ...]


def crossfit(
    folds: Folds,
    make: Make,
    *,
    files: FoldFiles | None = None,
    progress: Progress | None = None,
) -> Crossfit:
    """Every pair judged by the model of its fold.

    Args:
        folds: which pair is judged where.
        make: makes the model of a fold.
        files: finished folds are read from there, and written there.
        progress: told how far the work is.
    """
    links = torch.empty_like(folds.fold_of_link, dtype=torch.double)
    others = torch.empty_like(folds.fold_of_other, dtype=torch.double)
    ways = []
    for number in range(folds.count):
        fold = _fold(folds, number, make, files, progress)
        links[folds.fold_of_link == number] = fold.links.to(links)
        others[folds.fold_of_other == number] = fold.others.to(others)
        ways.append(fold.calibration)
    return Crossfit(links, others, tuple(ways))


def _fold(
    folds: Folds, number: int, make: Make, files: FoldFiles | None, progress: Progress | None
) -> Judgement:
    def tell(done: float) -> None:
        if progress is not None:
            progress((number + done) / folds.count, f"fold {number + 1} of {folds.count}")

    fold = None if files is None else files.read(number)
    if fold is None:
        tell(0)
        fold = judged(folds[number], make, tell)
        if files is not None:
            files.write(number, fold)
    tell(1)
    return fold
