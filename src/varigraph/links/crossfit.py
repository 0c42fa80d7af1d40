"""One model for each fold; together they judge every pair, and none judges what it has seen.

Finished folds are kept on disk, whole or absent, and known by the settings that made them.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import numpy as np
import torch
from torch import Tensor

from varigraph.data.opened_files import opened_arrays
from varigraph.errors import FileError, OptionError
from varigraph.files import replacing
from varigraph.files.fingerprint import tensor_fingerprint
from varigraph.files.whole_file import say_unused
from varigraph.links.calibration import calibration
from varigraph.links.folds import Fold, Folds
from varigraph.links.link_pairs import LinkPairs, pair_numbers
from varigraph.links.methods import Report, Scorer

#: Called with the fraction of the work that is done, from 0 to 1, and what is being done.
Progress = Callable[[float, str], None]
#: Equal settings give equal numbers.
Settings = Mapping[str, str | int]


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
        progress: called with how far the work is.
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
    def report(done: float) -> None:
        if progress is not None:
            progress((number + done) / folds.count, f"fold {number + 1} of {folds.count}")

    fold = None if files is None else files.read(number)
    if fold is None:
        report(0)
        fold = judged(folds[number], make, report)
        if files is not None:
            files.write(number, fold)
    report(1)
    return fold


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


def judged(fold: Fold, make: Make, report: Report) -> Judgement:
    """Trains and calibrates a model on what it may see, and lets it judge the rest."""
    scorer = make(fold.structure, seed=fold.seed)
    scorer.fit(fold.train.pairs, fold.train.real, fold.held.pairs, fold.held.real, report)
    calibrate = calibration(scorer.logits(fold.held.pairs), fold.held.real, seed=fold.seed)
    prob = calibrate(scorer.logits(fold.scored.pairs))
    return Judgement(prob[fold.scored.real], prob[~fold.scored.real], calibrate.name)


class FoldFiles:
    """A folder in which every finished fold is a file, found again by a second call.

    Args:
        folder: where the files are.
        settings: what decides their content.

    Raises:
        OptionError: if the folder holds folds made with other settings.
    """

    def __init__(self, folder: str | os.PathLike[str], settings: Settings) -> None:
        self._folder, self._settings = Path(folder), dict(settings)
        for path in sorted(self._folder.glob("fold-*.npz")):
            self._compare(path)

    def read(self, number: int) -> Judgement | None:
        """The fold as it was written under this number, or None where there is none to trust."""
        stored = _stored(self._path(number))
        if stored is None or stored.number != number:
            say_unused(self._path(number))
            return None
        return stored.fold

    def write(self, number: int, fold: Judgement) -> None:
        """Keeps a finished fold, in one step or not at all.

        Raises:
            FileError: if it cannot be written.
        """
        with replacing(self._path(number)) as stream:
            np.savez(
                stream,
                allow_pickle=False,
                links=fold.links.cpu().numpy(),
                others=fold.others.cpu().numpy(),
                calibration=np.array(fold.calibration),
                settings=np.array(json.dumps(self._settings)),
                number=np.array(number),
            )

    def _path(self, number: int) -> Path:
        return self._folder / f"fold-{number + 1}.npz"

    def _compare(self, path: Path) -> None:
        stored = _stored(path)
        if stored is None:
            return
        held = stored.settings
        differing = [
            f"{name} {held.get(name)}, not {self._settings.get(name)}"
            for name in {**self._settings, **held}
            if held.get(name) != self._settings.get(name)
        ]
        if differing:
            raise OptionError(
                f"{path} was made with {'; '.join(differing)}",
                "choose another folder, or delete the folds in this one",
            )


class _Stored(NamedTuple):
    """What stands in a file, with what made it."""

    fold: Judgement
    settings: dict[str, Any]
    number: int


def _stored(path: Path) -> _Stored | None:
    try:
        with opened_arrays(path) as arrays:
            links, others = (torch.from_numpy(arrays[name]) for name in ("links", "others"))
            fold = Judgement(links, others, str(arrays["calibration"]))
            settings = dict(json.loads(str(arrays["settings"])))
            return _Stored(fold, settings, int(arrays["number"]))
    except FileError:
        return None


def fold_settings(
    links: LinkPairs,
    x: Tensor | None,  # [nodes, features]
    *,
    method: str,
    folds: int,
    seed: int,
) -> Settings:
    """The options, the versions of what computes, and fingerprints of links and features."""
    return {
        "method": method,
        "folds": folds,
        "seed": seed,
        "nodes": links.nodes,
        "links": tensor_fingerprint(pair_numbers(links.pairs)),
        "features": "none" if x is None else tensor_fingerprint(x),
        "varigraph": version("varigraph"),
        "torch": str(torch.__version__),
    }
