"""The graph that a log-degree prior makes of distances (Kalofolias, 2016)."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from varigraph.baselines.log_degree_dual import LogDegreeDual, Optimum
from varigraph.errors import GraphError, ModelError, OptionError

#: From one intermediate problem to the next the distances grow by this factor at most, ...
GROWTH = 4.0
#: ... and each of them is solved up to this error.
ROUGH = 0.1


@dataclass(frozen=True, eq=False)
class LogDegreeGraph:
    """Weights that solve the log-degree problem.

    Args:
        weight: of each pair, 0 for most, double, ``[pairs]``.
        degree: sum of the weights at each node, ``[nodes]``.
        error: by how much the optimality condition is missed, as a share of the degree.
        steps: of Newton's method.
    """

    weight: Tensor
    degree: Tensor
    error: float
    steps: int


def log_degree_graph(
    pairs: Tensor,  # [2, pairs]
    distance: Tensor,  # [pairs]
    *,
    nodes: int,
    a: float = 1.0,
    b: float = 1.0,
    start: Tensor | None = None,  # [nodes]
    tolerance: float = 1e-9,
    max_steps: int = 500,
) -> LogDegreeGraph:
    r"""Weights of pairs of nodes: near ones get much, far ones nothing, and no node stays alone.

    They minimise

    .. math:: 2 z^\top w - a \sum_i \log d_i + b \lVert w \rVert^2
        \quad \text{over } w \ge 0, \qquad d_i = \sum_{e \ni i} w_e

    for distances :math:`z`. The optimum is
    :math:`w_{ij} = (\lambda_i + \lambda_j - z_{ij})_+ / b` with the prices
    :math:`\lambda_i = a / 2 d_i`. The prices minimise the dual, which has one unknown per node.
    Newton's method finds them in some tens of steps; first-order methods need more than 10,000
    where distances differ much in size. Large distances are approached in stages, each from the
    prices of the one before.

    https://arxiv.org/abs/1601.02513

    Args:
        pairs: that may get a weight, each once.
        distance: of each pair, not negative.
        nodes: how many there are.
        a: weight of the log degrees.
        b: weight of the squares; :math:`(b / 2) \lVert W \rVert_F^2` in terms of the matrix.
        start: degrees to start from, such as those of a similar problem.
        tolerance: largest share of a degree by which the optimality condition may be missed;
            where double precision cannot reach it, that precision.
        max_steps: after which to give up.

    Raises:
        GraphError: if a node is in no pair, or a distance is not a number or negative.
        ModelError: if the steps did not suffice.
        OptionError: if a or b is not positive.

    Example:
        >>> two = torch.tensor([[0], [1]])
        >>> round(log_degree_graph(two, torch.ones(1), nodes=2).weight.item(), 6)  # golden ratio
        0.618034
    """
    _check(pairs, distance, nodes, a, b)
    # With weights in units of sqrt(a / b) and distances in units of sqrt(a b), a and b are 1.
    unit, z = (a / b) ** 0.5, distance.double() / (a * b) ** 0.5
    if start is None:
        price, steps = _approached(pairs, z, nodes, max_steps)
    else:
        price, steps = unit / (2 * start.double()), 0
    dual = LogDegreeDual(pairs, z, nodes)
    found = dual.minimised(price, tolerance=tolerance, max_steps=max_steps - steps)
    _check_reached(found, max_steps)
    return LogDegreeGraph(
        unit * found.weight, unit * found.degree, found.error, steps + found.steps
    )


def _approached(pairs: Tensor, z: Tensor, nodes: int, max_steps: int) -> tuple[Tensor, int]:
    """Prices near the optimum, by way of smaller distances, and the steps that it took.

    Where distances are far above 1 the logarithm is a thin wall beside a wide valley, and Newton's
    method from afar would crawl along it.
    """
    nearest = float(LogDegreeDual(pairs, z, nodes).nearest().median())
    scale, steps = min(1.0, 1 / nearest if nearest else 1.0), 0
    price = LogDegreeDual(pairs, scale * z, nodes).start()
    while scale < 1:
        dual = LogDegreeDual(pairs, scale * z, nodes)
        found = dual.minimised(price, tolerance=ROUGH, max_steps=max_steps - steps)
        larger = min(1.0, GROWTH * scale)
        price, steps, scale = found.price * (larger / scale), steps + found.steps, larger
    return price, steps


def _check(pairs: Tensor, distance: Tensor, nodes: int, a: float, b: float) -> None:
    if a <= 0 or b <= 0:
        raise OptionError(f"a={a}, b={b}", "both must be positive: a=1, b=1")
    if not (distance.isfinite() & (distance >= 0)).all():
        raise GraphError("a distance is negative or not a number", "give distances from 0 upwards")
    alone = torch.bincount(pairs.flatten(), minlength=nodes) == 0
    if alone.any():
        raise GraphError(
            f"node {int(alone.nonzero()[0])} is in none of the pairs, so its degree would be 0",
            "give every node at least one pair",
        )


def _check_reached(found: Optimum, max_steps: int) -> None:
    if not found.reached:
        raise ModelError(
            f"after {max_steps} steps the weights still miss the optimality condition by "
            f"{found.error:.2g}",
            "bring the distances to a common scale, or allow more: max_steps=5000",
        )
