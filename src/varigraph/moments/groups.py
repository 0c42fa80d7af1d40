"""Rows that come together in groups, feature by feature: nodes of a graph, messages to a node."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from varigraph.moments.gaussian import Gaussian
from varigraph.moments.propagation import recorded
from varigraph.moments.tape import Scale, Sum
from varigraph.sparse import Sparse


def members(group: Tensor, groups: int, weight: Tensor) -> Sparse:  # [rows] -> [groups, rows]
    """Which rows belong to which group, with a weight for each."""
    order = group.argsort(stable=True)
    return Sparse(group[order], order, weight[order], (groups, len(group)))


def totals(values: Tensor, group: Tensor, groups: int) -> Tensor:  # [rows, f] -> [groups, f]
    """Sum over the rows of each group."""
    return values.new_zeros(groups, *values.shape[1:]).index_add(0, group, values)


def counts(group: Tensor, groups: int, like: Tensor) -> Tensor:  # [groups, 1]
    """How many rows each group has."""
    return torch.bincount(group, minlength=groups).to(like)[:, None]


def responding(
    out: Gaussian,  # [groups, features]
    x: Gaussian,  # [rows, features]
    slope: Tensor,  # [rows, features]
    group: Tensor,  # [rows]
) -> Gaussian:
    r"""The value itself, with :math:`\partial y_{gf} / \partial x_{if} = s_{if}` on record.

    Every row is in one group, so a slope for each number says it all: numbers are scaled, and then
    added up.
    """
    scaled = Gaussian(slope * x.mean, slope.square() * x.var)
    recorded(scaled, (x, Scale(slope)))
    ones = torch.ones_like(slope[:, 0])
    return recorded(out, (scaled, Sum(members(group, len(out), ones))))


def slopes(function: Callable[[Tensor], Tensor], x: Tensor) -> Tensor:  # [rows, features], the same
    """Slopes of a function that works feature by feature and group by group, by one gradient."""
    learning = torch.is_grad_enabled()
    with torch.enable_grad():
        start = x.clone() if learning and x.requires_grad else x.detach().requires_grad_()
        (slope,) = torch.autograd.grad(function(start).sum(), start, create_graph=learning)
    return slope
