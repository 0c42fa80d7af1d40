"""What decides the numbers of a comparison, and where it is kept."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from varigraph.errors import OptionError
from varigraph.links.methods import RECIPES
from varigraph.studies.config import NOISE, versions
from varigraph.studies.pieces import Pieces


@dataclass(frozen=True)
class Options:
    """Whatever changes a number stands here; which cells are wanted does not.

    Args:
        folder: where everything is written.
        samples: draws per prediction, for methods that draw.
        links: the method that computes the probabilities of links; None takes all as certain.
        quick: train for a few epochs only, to see that everything works.
        root: folder that holds the data sets.
    """

    folder: Path
    samples: int = 100
    links: str | None = "hadamard"
    quick: bool = False
    root: Path | None = None

    def __post_init__(self) -> None:
        if self.samples < 2:
            raise OptionError(f"samples is {self.samples}", "draw at least twice: samples=100")
        if self.links is not None and self.links not in RECIPES:
            raise OptionError(
                f"links is {self.links!r}", f"choose one of {', '.join(RECIPES)}, or None"
            )

    @property
    def pieces(self) -> Pieces:
        """The folder with all that is finished in it."""
        return Pieces(self.folder, self.record())

    def record(self) -> dict[str, Any]:
        """The options and the versions of what computes them, as JSON has them."""
        return {
            "study": "paper",
            "samples": self.samples,
            "links": self.links,
            "quick": self.quick,
            "noise": list(NOISE),
            "versions": versions(),
        }
