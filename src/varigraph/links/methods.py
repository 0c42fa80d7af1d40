"""The scorers by name, and which one suits a graph."""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from typing import Literal

from torch import Tensor

from varigraph.links.scorer import Scorer

Method = Literal["auto", "seal", "hadamard"]
#: Links up to which ``auto`` means ``seal``.
LARGE = 20_000


@dataclass(frozen=True)
class Recipe:
    """A scorer that is imported when it is asked for.

    Args:
        module: where its class is.
        name: what the class is called.
        contrast: non-links that it learns from for each link.
    """

    module: str
    name: str
    contrast: int

    def scorer(self, links: Tensor, *, nodes: int, x: Tensor | None, seed: int) -> Scorer:
        """A new scorer that may see these links, ``[2, links]``."""
        kind = getattr(import_module(self.module), self.name)
        made: Scorer = kind(links, nodes=nodes, x=x, seed=seed)
        return made


RECIPES = {
    "hadamard": Recipe("varigraph.links.hadamard", "Hadamard", contrast=5),
    "seal": Recipe("varigraph.links.seal", "Seal", contrast=1),
}


def chosen(method: Method, *, links: int) -> str:
    """The scorer that is meant: ``auto`` is the fast one where the graph is large."""
    if method != "auto":
        return method
    return "hadamard" if links > LARGE else "seal"
