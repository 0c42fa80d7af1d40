"""The dual of the log-degree problem: one price per node, found by Newton's method."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from varigraph.baselines.conjugate_gradients import conjugate_gradients

#: Share of the way to a price of 0 that one step may go.
BOUNDARY = 0.99
#: Share of the promised descent that a step must keep, and how often it is halved at most.
KEPT, HALVINGS = 1e-4, 50
#: Rounding errors that are let pass, in units of the last digit of a price.
LAST_DIGITS = 4


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
            if self._value(moved) <= value + KEPT * length * slope + 1e-13 * abs(value):
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
