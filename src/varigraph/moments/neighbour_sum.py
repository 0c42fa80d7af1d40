"""A sum over neighbours that is not taken yet."""

from __future__ import annotations

from functools import cached_property

from torch import Tensor

from varigraph.moments.gaussian import Gaussian
from varigraph.moments.neighbours import Neighbours
from varigraph.moments.propagation import current
from varigraph.moments.sparse import by_mkl


class NeighbourSum(Gaussian):
    """A neighbour sum that waits for the linear map behind it.

    ``W (sum S x) = sum S (W x)``: mapping the messages first keeps the correlation between the
    features that one coin moves, and is less work where the map narrows.
    """

    neighbours: Neighbours
    x: Gaussian

    def __init__(self, neighbours: Neighbours, x: Gaussian) -> None:
        self.__dict__.update(neighbours=neighbours, x=x)

    def sums_first(self, width: int) -> bool:
        """Whether to sum before a map to so many features: less work where the map widens.

        Only where all links are certain, and where nobody wants to know what responds to what.
        """
        narrower = self.x.shape[-1] < width
        return narrower and self.neighbours.prob is None and current().tape is None

    def goes_onto(self, own: Gaussian, width: int) -> bool:
        """Whether the sum of so many mapped features may be written over the node's own value.

        On a processor that is a pass over memory less, where no coins are tossed.
        """
        writable = type(own) is Gaussian and 0 not in (*own.mean.stride(), *own.var.stride())
        allowed = current().overwrite and by_mkl(own.mean)
        return writable and allowed and self.neighbours.prob is None and not self.sums_first(width)

    @cached_property
    def _moments(self) -> Gaussian:
        return self.neighbours.sum(self.x)

    @property
    def mean(self) -> Tensor:
        """Mean of the sum, without a map."""
        return self._moments.mean

    @property
    def var(self) -> Tensor:
        """Variance of the sum, without a map."""
        return self._moments.var
