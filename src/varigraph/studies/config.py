"""Everything that decides the result of a study, and how it reports its progress."""

from __future__ import annotations

import math
import platform
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any, get_args

import torch
import torch_geometric

import varigraph
from varigraph.choices import Reading
from varigraph.errors import OptionError

NOISE = (0.0, 2.5, 5.0, 12.0)


@dataclass(frozen=True)
class Study:
    """The options of a study, checked before any work starts.

    Args:
        dataset: name of the data set.
        seed: of the split, the first weights, the training, the noise and the dropout masks.
        samples: dropout masks per prediction.
        noise: levels of noise, in per cent of the mean feature.
        epochs: passes over the training nodes.
        links: where the probabilities of links come from: a method, a file, or None where all links
            are certain.
        reading: how the probability of a link is read.
    """

    dataset: str
    seed: int = 0
    samples: int = 100
    noise: tuple[float, ...] = NOISE
    epochs: int = 50
    links: str | None = None
    reading: Reading = "bernoulli"

    def __post_init__(self) -> None:
        if self.seed < 0:
            raise OptionError(f"seed is {self.seed}", "give a whole number from 0 up: seed=0")
        if self.samples < 0:
            raise OptionError(f"samples is {self.samples}", "draw 0 masks or more: samples=100")
        if self.epochs < 1:
            raise OptionError(f"epochs is {self.epochs}", "train at least once: epochs=50")
        if self.reading not in get_args(Reading):
            raise OptionError(
                f"reading is {self.reading!r}", f"choose one of {', '.join(get_args(Reading))}"
            )
        if not self.noise or len(set(self.noise)) < len(self.noise):
            raise OptionError(
                f"noise is {self.noise}", f"give every level once, at least one: noise={NOISE}"
            )
        if not all(math.isfinite(level) and level >= 0 for level in self.noise):
            raise OptionError(f"noise is {self.noise}", f"levels are percentages: noise={NOISE}")

    @classmethod
    def of(cls, record: Mapping[str, Any]) -> Study:
        """The options behind a :meth:`record`.

        Raises:
            KeyError, TypeError, ValueError: if it is not a record.
        """
        options = {each.name: record[each.name] for each in fields(Study)}
        return Study(**{**options, "noise": tuple(options["noise"])})

    @property
    def about_links(self) -> str:
        """The end of a title: where the probabilities of links come from; nothing where none do."""
        if self.links is None:
            return ""
        return f", links by {Path(self.links).name}, read as {self.reading}"

    def record(self) -> dict[str, Any]:
        """The options and the versions of what computes them, as a JSON object."""
        return {**asdict(self), "noise": list(self.noise), "versions": versions()}


def versions() -> dict[str, str]:
    """Versions of everything that can change a number."""
    return {
        "varigraph": varigraph.__version__,
        "torch": str(torch.__version__),
        "torch_geometric": str(torch_geometric.__version__),
        "python": platform.python_version(),
    }


#: Called with a stage, the steps done and the number of steps.
Progress = Callable[[str, int, int], None]


def quiet(stage: str, done: int, total: int) -> None:
    """Shows nothing."""


def in_hundredths(progress: Progress, stage: str) -> Callable[[float, str], None]:
    """A function of the fraction done, from 0 to 1, that reports hundredths of a stage.

    Args:
        progress: of the study.
        stage: whose work it is.
    """
    return lambda fraction, what: progress(stage, round(100 * fraction), 100)
