"""Slopes times variances: the causes of one number's variance, largest first."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from varigraph.errors import ModelError
from varigraph.moments.coins import Coins


@dataclass(frozen=True, eq=False)
class Causes:
    """Everything of one kind that causes variance.

    Args:
        index: node and feature, node, or coin of each, ``[causes, 2]`` or ``[causes, 1]``.
        variance: that it causes, positive, float64, ``[causes]``.
    """

    index: Tensor
    variance: Tensor

    @cached_property
    def total(self) -> float:
        """Variance that they cause together."""
        return float(self.variance.sum())

    def largest(self, top: int) -> list[tuple[list[int], float]]:
        """The index and variance of the ``top`` largest."""
        kept = self._order[:top]
        return list(zip(self.index[kept].tolist(), self.variance[kept].tolist(), strict=True))

    def rest(self, top: int) -> float:
        """Variance of all but the ``top`` largest."""
        return float(self.variance[self._order[top:]].sum())

    @cached_property
    def _order(self) -> Tensor:
        # Stable: causes of the same size stand in the order of their index.
        return self.variance.sort(descending=True, stable=True).indices


def feature_causes(slope: Tensor | None, var: Tensor) -> Causes:  # [nodes, features] each
    r"""Single features, each with :math:`\sigma_{wk}^2 (\partial y / \partial x_{wk})^2`.

    Args:
        slope: of the answer by every feature; None where no feature is in doubt.
        var: variance of every feature.
    """
    if slope is None:
        return _none(width=2)
    # Only the neighbourhood has slopes: the rest of a large graph is never copied.
    rows = ((slope != 0) & (var > 0)).any(1).nonzero()[:, 0]
    blame = _blame(slope[rows], var[rows])
    _check_finite(blame, "a feature of node", rows)
    places = blame.nonzero()
    index = torch.stack([rows.cpu()[places[:, 0]], places[:, 1]], 1)
    return Causes(index, blame[places[:, 0], places[:, 1]])


def node_causes(features: Causes) -> Causes:
    """Nodes, each with what its features cause together."""
    nodes, place = torch.unique(features.index[:, 0], return_inverse=True)
    variance = features.variance.new_zeros(len(nodes)).index_add(0, place, features.variance)
    return Causes(nodes[:, None], variance)


def link_causes(slope: Tensor | None, coins: Coins | None) -> Causes:  # [coins]
    r"""Links, each with :math:`p (1 - p) (\partial y / \partial z)^2` of its coin z.

    Args:
        slope: of the answer by every coin; None where no link is in doubt.
        coins: the coins.
    """
    if slope is None or coins is None:
        return _none(width=1)
    prob = coins.prob.double()
    blame = _blame(slope, prob * (1 - prob))
    _check_finite(blame[:, None], "a link from node", coins.source)
    places = blame.nonzero()
    return Causes(places, blame[places[:, 0]])


def total_of(slope: Tensor, variance: Tensor) -> float:  # [*shape] each
    r""":math:`\sum_i \sigma_i^2 (\partial y / \partial z_i)^2` of all that one source moves."""
    return float(_blame(slope, variance).sum())


def _none(width: int) -> Causes:
    return Causes(torch.zeros(0, width, dtype=torch.long), torch.zeros(0, dtype=torch.float64))


def _blame(slope: Tensor, var: Tensor) -> Tensor:  # [*shape] each -> [*shape]
    """In float64, on the CPU: squares of small slopes have no place in float32."""
    var = var.cpu().double()
    # What is certain is no cause, even where the slope is infinite.
    return torch.where(var > 0, slope.cpu().double().square() * var, 0.0)


def _check_finite(blame: Tensor, what: str, node: Tensor) -> None:  # [causes, parts], [causes]
    bad = ~blame.isfinite().all(1)
    if bad.any():
        first = int(node.cpu()[bad][0])
        raise ModelError(
            f"the slope of the answer by {what} {first} is not a finite number",
            "look for sqrt(), norm() or a division at 0 in the model; add a small eps there",
        )
