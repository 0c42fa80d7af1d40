"""Dropout: the same mask for mean and variance."""

from __future__ import annotations

from torch import nn
from torch.nn import functional as F

from varigraph.moments.gaussian import Gaussian
from varigraph.moments.propagation import current
from varigraph.moments.registry import implements


@implements(F.dropout, exactness="exact", modules=[nn.Dropout], note="given the mask")
def dropout(x: Gaussian, p: float = 0.5, training: bool = True, inplace: bool = False) -> Gaussian:
    r"""Moments of :math:`z x` for a mask :math:`z \in \{0, 1 / (1 - p)\}` that is drawn once.

    .. math::
        E[y] = z \mu \qquad V[y] = z^2 \sigma^2
    """
    return current().dropout(x, p) if training and p > 0 else x
