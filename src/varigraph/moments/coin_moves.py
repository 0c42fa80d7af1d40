"""What outputs see of single messages, and how they respond to coins through them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from torch import Tensor


@dataclass(frozen=True, eq=False)
class Seen:
    r"""What outputs see of single messages: :math:`T_{uv} m_j` for the link j -> v.

    Args:
        row: number of the output node, ``[walks]``.
        link: number of the link, ``[walks]``; every pair of the two once, in ascending order.
        value: what is seen, ``[walks, outputs]``.
        own: what the link's own coin moves beside that, of the same shape.
        rows: number of output nodes.
    """

    row: Tensor
    link: Tensor
    value: Tensor
    own: Tensor
    rows: int


class Moved(NamedTuple):
    """Responses of outputs to coins, ``[walks]``, ``[walks]`` and ``[walks, outputs]``."""

    row: Tensor
    coin: Tensor
    slope: Tensor


class Rest(NamedTuple):
    """Covariance of outputs that no coin causes alone, ``[rows, outputs, outputs]``."""

    covariance: Tensor
