"""How alike the attributes of nodes are."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

#: Rows compared at a time; few enough for the processor's cache.
ROWS = 1024


class Likeness:
    r"""Cosine of the attributes of two nodes, taken about their mean over all nodes.

    .. math::
        \frac{(x_i - \bar x) \cdot (x_j - \bar x)}{|x_i - \bar x|\,|x_j - \bar x|}

    It is 0 where a node has nothing that sets it apart from the mean.

    Args:
        x: attributes, ``[nodes, attributes]``.

    Example:
        >>> likeness = Likeness(torch.tensor([[1.0, 0.0], [0.0, 1.0], [1.0, 0.0], [0.0, 1.0]]))
        >>> likeness.between(torch.tensor([0, 0]), torch.tensor([1, 2])).round()
        tensor([-1.,  1.])
    """

    def __init__(self, x: Tensor) -> None:
        x = x.cpu().double()  # or rounding would set equal nodes apart
        self.directions = F.normalize(x - x.mean(dim=0), dim=1).float()

    def between(self, one: Tensor, two: Tensor) -> Tensor:  # [pairs], [pairs] -> [pairs]
        """The cosine of each pair of nodes."""
        parts = zip(one.split(ROWS), two.split(ROWS), strict=True)
        return torch.cat([(self.directions[a] * self.directions[b]).sum(dim=1) for a, b in parts])
