"""How networks are trained: one recipe for each data set, the same for every method."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from varigraph.studies.comparison.protocols import Protocol


@dataclass(frozen=True)
class Recipe:
    """Options of :func:`varigraph.train`.

    Args:
        epochs: passes over the training nodes.
        batch_size: seed nodes per step.
        learning_rate: of Adam.
    """

    epochs: int
    batch_size: int
    learning_rate: float

    def __str__(self) -> str:
        return (
            f"{self.epochs} epochs, batches of {self.batch_size}, "
            f"learning rate {self.learning_rate:g}"
        )

    @property
    def options(self) -> dict[str, Any]:
        """As keywords."""
        return asdict(self)


#: The paper's own recipe.
PAPER = Recipe(epochs=50, batch_size=50, learning_rate=1e-3)
#: Where 70 % of a large graph are training nodes, the validation loss is best after five to seven.
MANY_NODES = Recipe(epochs=10, batch_size=50, learning_rate=1e-3)
QUICK = Recipe(epochs=3, batch_size=50, learning_rate=5e-3)


def recipe(protocol: Protocol, dataset: str, *, quick: bool = False) -> Recipe:
    """The recipe for a data set.

    Args:
        protocol: decides how many training nodes there are.
        dataset: its name.
        quick: few epochs, to see that everything works.

    Example:
        >>> print(recipe("held-out", "cora"))
        50 epochs, batches of 50, learning rate 0.001
    """
    if quick:
        return QUICK
    return PAPER if protocol == "paper" or dataset == "cora" else MANY_NODES
