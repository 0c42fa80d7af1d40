"""How distances must be scaled for a log-degree graph to have the wanted number of edges."""

from __future__ import annotations

from typing import Literal, get_args

import torch
from torch import Tensor

from varigraph.errors import GraphError, OptionError

Average = Literal["mean", "geometric", "median"]
#: A node wants one edge only if the scale is infinite, or this much above the lower bound.
ABOVE = 1.1


def distance_scale(
    nearest: Tensor,  # [nodes, partners]
    edges: int,
    *,
    average: Average = "mean",
) -> float:
    r"""The factor :math:`\theta` on the distances that gives each node so many edges on average.

    A node alone, with partners at the distances :math:`z_1 \le z_2 \le \dots`, has k edges for

    .. math:: \theta_{k+1} < \theta \le \theta_k, \qquad
        \theta_k = \Big( k z_k^2 - z_k \sum_{j \le k} z_j \Big)^{-1/2} .

    The bounds are averaged over the nodes, and :math:`\theta` is the geometric mean of the two.
    Nodes whose k nearest partners are equally far have no upper bound and are left out.
    (Kalofolias and Perraudin, 2019, https://arxiv.org/abs/1710.05654)

    Args:
        nearest: distances of each node's nearest partners, at least ``edges`` + 1, ascending.
        edges: wanted per node.
        average: over nodes. The median bears outliers.

    Raises:
        GraphError: if there are too few partners, or ties leave no node that tells the scale.
        OptionError: if ``edges`` or ``average`` makes no sense.

    Example:
        >>> z = torch.tensor([[1.0, 2.0, 3.0, 4.0]])
        >>> round(distance_scale(z, 2), 6)  # between 1 / 3 and 1 / sqrt(2)
        0.485492
    """
    _check(nearest, edges, average)
    lower = _averaged(_bound(nearest, edges + 1), average)
    if edges == 1:
        return ABOVE * lower
    upper = _averaged(_bound(nearest, edges), average)
    return float((lower * upper) ** 0.5)


def _bound(nearest: Tensor, k: int) -> Tensor:  # [nodes, partners] -> [nodes]
    z = nearest[:, :k].double()
    farthest = z[:, -1]
    spread = k * farthest.square() - farthest * z.sum(dim=1)
    # Rounding must not pass for a difference between equal distances.
    tied = spread <= 1e-12 * k * farthest.square()
    return spread.rsqrt().where(~tied, torch.inf)


def _averaged(bound: Tensor, average: Average) -> float:  # [nodes]
    finite = bound[bound.isfinite()]
    if not len(finite):
        raise GraphError(
            "the nearest partners of every node are equally far, so no scale tells them apart",
            "take distances that differ, such as those of an embedding",
        )
    if average == "median":
        return float(finite.median())
    return float(finite.mean() if average == "mean" else finite.log().mean().exp())


def _check(nearest: Tensor, edges: int, average: Average) -> None:
    if edges < 1 or average not in get_args(Average):
        raise OptionError(
            f"edges={edges}, average={average!r}",
            f"ask for at least one edge, and an average of {get_args(Average)}",
        )
    if nearest.dim() != 2 or nearest.size(1) <= edges:
        raise GraphError(
            f"{edges} edges per node need the distances of {edges + 1} partners, but the shape "
            f"is {tuple(nearest.shape)}",
            "ask for fewer edges, or look at more partners",
        )
