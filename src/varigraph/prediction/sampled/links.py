"""What the coins of uncertain links show, as weights of messages."""

from __future__ import annotations

from torch import Tensor

from varigraph.moments import LinkProbabilities
from varigraph.prediction.sampled.draws import coins


class DrawnLinks:
    """The weights of links in the running pass; hooks stay while draws change.

    One coin decides about both directions of a link, where their chances agree, and about all of
    its listings (:attr:`LinkProbabilities.coins`).

    Args:
        links: the links and their chances, which are the weights where nothing is drawn.
    """

    def __init__(self, links: LinkProbabilities) -> None:
        self._links = self._shown = links
        self.met = False

    def draw(self, sample: int, *, seed: int) -> Tensor:  # -> [edges]
        """What the coins show, for each listed link.

        Args:
            sample: number of the draw.
            seed: key of the generator.
        """
        of_link = self._links.coins
        return coins(of_link.prob, sample, seed=seed)[of_link.of_edge]

    def show(self, weights: Tensor | None) -> None:  # [edges]
        """Begin a pass with these weights; None for the chances."""
        self._shown = self._links if weights is None else self._links.drawn(weights)
        self.met = False

    def of(self, edge_index: Tensor, *, own_loops: bool = False) -> Tensor:  # [2, m] -> [m]
        """Weight of each of a layer's links."""
        self.met = True
        return self._shown.of(edge_index, own_loops=own_loops)
