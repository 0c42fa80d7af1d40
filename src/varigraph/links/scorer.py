"""What a method of link prediction has to offer, so that all are cross-fitted alike."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from torch import Tensor

#: Told the fraction of the work that is done, from 0 to 1.
Tell = Callable[[float], None]


class Scorer(Protocol):
    """Learns from some pairs of nodes whether they are links, then judges others.

    Made as ``Method(links, nodes=..., x=..., seed=...)``: ``links`` ``[2, links]`` are those that
    may be seen as structure, each once and in any orientation; ``nodes`` is how many nodes there
    are; ``x`` are their features ``[nodes, features]``, or None.
    """

    def fit(
        self,
        pairs: Tensor,  # [2, examples]
        real: Tensor,  # [examples] bool
        held: Tensor,  # [2, held]
        held_real: Tensor,  # [held] bool
        tell: Tell,
    ) -> None:
        """Learns which pairs are real.

        Args:
            pairs: examples to learn from. The real ones are among the links of the structure and
                must not be seen there while they are learnt from.
            real: which of them are links.
            held: pairs that are not in the structure, to tell when to stop.
            held_real: which of those are links.
            tell: called now and then.
        """

    def logits(self, pairs: Tensor) -> Tensor:  # [2, pairs] -> [pairs]
        """Log odds that each pair is a link, the same for both orders of its ends.

        A pair's own link never influences its score.
        """
