"""The graph that a log-degree prior makes of distances (Kalofolias, 2016).

Newton's method minimises its dual, which has one price per node.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.sparse.linalg import LinearOperator, cg
from torch import Tensor

from varigraph.errors import GraphError, ModelError, OptionError

#: From one intermediate problem to the next the distances grow by this factor at most, ...
GROWTH = 4.0
#: ... and each of them is solved up to this error.
ROUGH = 0.1
Average = Literal["mean", "geometric", "median"]
#: A node wants one edge only if the scale is infinite, or this much above the lower bound.
ABOVE = 1.1
#: Share of the way to a price of 0 that one step may go.
BOUNDARY = 0.99
#: Share of the promised descent that a step must keep, and how often it is halved at most.
DESCENT, HALVINGS = 1e-4, 50
#: Rounding errors that are tolerated, in units of the last digit of a price.
LAST_DIGITS = 4


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
    r"""Weights of pairs of nodes: near ones get much, far ones nothing, and no node is left alone.

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
        ModelError: if the steps were not enough.
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


def distance_scale(
    nearest: Tensor,  # [nodes, partners]
    edges: int,
    *,
    average: Average = "mean",
) -> float:
    r"""The factor :math:`\theta` on the distances that gives nodes this many edges on average.

    A node alone, with partners at the distances :math:`z_1 \le z_2 \le \dots`, has k edges for

    .. math:: \theta_{k+1} < \theta \le \theta_k, \qquad
        \theta_k = \Big( k z_k^2 - z_k \sum_{j \le k} z_j \Big)^{-1/2} .

    The bounds are averaged over the nodes, and :math:`\theta` is the geometric mean of the two.
    Nodes whose k nearest partners are equally far have no upper bound and are left out.
    (Kalofolias and Perraudin, 2019, https://arxiv.org/abs/1710.05654)

    Args:
        nearest: distances of each node's nearest partners, at least ``edges`` + 1, ascending.
        edges: wanted per node.
        average: over nodes. The median is robust to outliers.

    Raises:
        GraphError: if there are too few partners, or ties leave no node that sets the scale.
        OptionError: if ``edges`` or ``average`` makes no sense.

    Example:
        >>> z = torch.tensor([[1.0, 2.0, 3.0, 4.0]])
        >>> round(distance_scale(z, 2), 6)  # between 1 / 3 and 1 / sqrt(2)
        0.485492
    """
    _check_wanted(nearest, edges, average)
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


def _check_wanted(nearest: Tensor, edges: int, average: Average) -> None:
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


@dataclass(frozen=True, eq=False)
class Optimum:
    """Where the search ended.

    Args:
        price: of each node, ``[nodes]``.
        weight: of each pair, ``[pairs]``.
        degree: sum of the weights at each node, ``[nodes]``.
        error: by how much the optimality condition is missed, as a share of the degree.
        steps: that were taken.
        reached: whether the error is as small as asked for, or as double precision allows.
    """

    price: Tensor
    weight: Tensor
    degree: Tensor
    error: float
    steps: int
    reached: bool


class LogDegreeDual:
    r"""A convex function of the nodes' prices, to be minimised.

    .. math:: \frac12 \sum_{ij} (\lambda_i + \lambda_j - z_{ij})_+^2
        - \frac12 \sum_i \log \lambda_i
        \quad \text{over } \lambda > 0

    Its slope is :math:`d_i - 1 / 2 \lambda_i` for the degrees :math:`d_i` of the weights
    :math:`w_{ij} = (\lambda_i + \lambda_j - z_{ij})_+`.

    Args:
        pairs: that may get a weight, ``[2, pairs]``.
        distance: of each pair, double, ``[pairs]``.
        nodes: how many there are.
    """

    def __init__(self, pairs: Tensor, distance: Tensor, nodes: int) -> None:
        self._one, self._two = pairs
        self._distance, self._nodes = distance, nodes

    def nearest(self) -> Tensor:  # [nodes]
        """Distance of the nearest partner of each node."""
        nearest = self._distance.new_full((self._nodes,), torch.inf)
        nearest.scatter_reduce_(0, self._one, self._distance, "amin")
        return nearest.scatter_reduce_(0, self._two, self._distance, "amin")

    def start(self) -> Tensor:  # [nodes]
        """Prices at which the nearest pair of every node has a weight."""
        nearest = self.nearest()
        return (nearest + (nearest.square() + 2).sqrt()) / 2

    def minimised(self, price: Tensor, *, tolerance: float, max_steps: int) -> Optimum:
        """The optimum, searched from these prices."""
        for step in range(max_steps + 1):
            weight = self._weight(price)
            active = weight.nonzero().flatten()
            degree = self._summed(active, weight[active])
            miss = (2 * price * degree - 1).abs()
            allowed = self._rounding(price, active).clamp_min(tolerance)
            error, reached = float(miss.max()), bool((miss <= allowed).all())
            if reached or step == max_steps:
                break
            price = self._stepped(price, active, degree, precision=min(0.1, error) / 10)
        return Optimum(price, weight, degree, error, step, reached)

    def _rounding(self, price: Tensor, active: Tensor) -> Tensor:  # -> [nodes]
        """Share of each degree that rounding can take: a weight is a difference of prices."""
        sizes = price[self._one[active]] + price[self._two[active]]
        digits = LAST_DIGITS * torch.finfo(price.dtype).eps
        return 2 * price * digits * self._summed(active, sizes)

    def _stepped(
        self, price: Tensor, active: Tensor, degree: Tensor, *, precision: float
    ) -> Tensor:  # -> [nodes]
        """The prices after one damped Newton step."""
        slope, bend = degree - 1 / (2 * price), 1 / (2 * price.square())
        one, two = self._one[active], self._two[active]

        def curvature(change: Tensor) -> Tensor:  # [nodes] -> [nodes]
            return bend * change + self._summed(active, change[one] + change[two])

        diagonal = bend + self._summed(active, torch.ones_like(one, dtype=price.dtype))
        change = conjugate_gradients(curvature, -slope, diagonal, tolerance=precision)
        return self._searched(price, change, float(slope @ change))

    def _searched(self, price: Tensor, change: Tensor, slope: float) -> Tensor:
        """As far along the change as the prices stay positive and the function falls."""
        room = float((-price / change).where(change < 0, torch.inf).min())
        length, value = min(1.0, BOUNDARY * room), self._value(price)
        for _ in range(HALVINGS):
            moved = price + length * change
            # Near the optimum the value no longer tells steps apart: its digits are used up.
            if self._value(moved) <= value + DESCENT * length * slope + 1e-13 * abs(value):
                return moved
            length /= 2
        return price

    def _value(self, price: Tensor) -> float:
        return float(self._weight(price).square().sum() - price.log().sum()) / 2

    def _weight(self, price: Tensor) -> Tensor:  # [nodes] -> [pairs]
        return (price[self._one] + price[self._two] - self._distance).clamp_min(0)

    def _summed(self, active: Tensor, values: Tensor) -> Tensor:  # [active] -> [nodes]
        """Sum of the values of the active pairs at each node."""
        total = values.new_zeros(self._nodes)
        total.index_add_(0, self._one[active], values)
        return total.index_add_(0, self._two[active], values)


def conjugate_gradients(
    product: Callable[[Tensor], Tensor],  # [n] -> [n]
    right: Tensor,  # [n]
    diagonal: Tensor,  # [n]
    *,
    tolerance: float = 1e-8,
    max_steps: int = 1000,
) -> Tensor:  # [n]
    """The x for which ``product(x)`` is ``right``, up to a residual of ``tolerance`` times it.

    Preconditioned by the diagonal. Whatever the number of steps, the result is a direction in
    which the quadratic form falls, so Newton's method may use it even where it is not exact.

    Args:
        product: multiplies by a symmetric positive definite matrix.
        right: the right-hand side.
        diagonal: of the matrix.
        tolerance: of the residual, in the norm of the preconditioner.
        max_steps: after which the current x is returned.
    """
    # With the root of the diagonal divided out on both sides, the plain norm of the residual, which
    # scipy looks at, is that of the preconditioner.
    root = diagonal.sqrt()

    def scaled_product(vector: NDArray[np.float64]) -> NDArray[np.float64]:
        return _array(product(torch.from_numpy(vector).to(root) / root) / root)

    matrix = LinearOperator((len(right), len(right)), matvec=scaled_product, dtype=np.float64)
    found, _ = cg(matrix, _array(right / root), rtol=tolerance, atol=0.0, maxiter=max_steps)
    return torch.from_numpy(found).to(root) / root


def _array(vector: Tensor) -> NDArray[np.float64]:
    array: NDArray[np.float64] = vector.cpu().double().numpy()
    return array
