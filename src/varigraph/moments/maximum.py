"""Rows in groups, and the largest and smallest of several uncertain numbers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from varigraph.errors import MissingRuleError
from varigraph.moments.gaussian import Gaussian
from varigraph.moments.propagation import current, recorded
from varigraph.moments.registry import implements
from varigraph.moments.tape import Dense, Scale, Sum
from varigraph.sparse import Sparse

POINTS = 64
#: Standard deviations that hold all of a Gaussian, as far as its number type can tell.
REACH = {torch.float64: 9.0}
REACH_OTHERWISE = 6.0
#: Least standard deviation for which chances are computed, beside 1 or the mean, and its least
#: share of the widest of a group.
LEAST, SHARE = 1e-5, 0.1


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
    ones = torch.ones_like(group, dtype=slope.dtype)
    return recorded(out, (scaled, Sum(members(group, len(out), ones))))


def slopes(function: Callable[[Tensor], Tensor], x: Tensor) -> Tensor:  # [rows, features], the same
    """Slopes of a function that works feature by feature and group by group, by one gradient."""
    learning = torch.is_grad_enabled()
    with torch.enable_grad():
        start = x.clone() if learning and x.requires_grad else x.detach().requires_grad_()
        (slope,) = torch.autograd.grad(function(start).sum(), start, create_graph=learning)
    return slope


class Largest(NamedTuple):
    """What ``torch.max(x, dim)`` returns; which element is the largest is not certain."""

    values: Gaussian
    indices: None


NOTE = "numerical integration; along one axis"


@implements("max", exactness="exact for independent inputs", note=NOTE)
def maximum(x: Gaussian, dim: int | None = None, keepdim: bool = False) -> Largest:
    """Moments of the largest value along an axis, by :func:`group_max`."""
    return Largest(amax(x, dim, keepdim), None)


@implements("min", exactness="exact for independent inputs", note=NOTE)
def minimum(x: Gaussian, dim: int | None = None, keepdim: bool = False) -> Largest:
    """Moments of the smallest value along an axis, by :func:`group_min`."""
    return Largest(amin(x, dim, keepdim), None)


@implements("amax", exactness="exact for independent inputs", note=NOTE)
def amax(x: Gaussian, dim: int | None = None, keepdim: bool = False) -> Gaussian:
    """Moments of the largest value along an axis, by :func:`group_max`."""
    return _along(x, dim, keepdim, sign=1)


@implements("amin", exactness="exact for independent inputs", note=NOTE)
def amin(x: Gaussian, dim: int | None = None, keepdim: bool = False) -> Gaussian:
    """Moments of the smallest value along an axis, by :func:`group_min`."""
    return _along(x, dim, keepdim, sign=-1)


def _along(x: Gaussian, dim: int | None, keepdim: bool, *, sign: int) -> Gaussian:
    if not isinstance(dim, int):
        name = "max" if sign > 0 else "min"
        raise MissingRuleError(f"{name}() over all numbers has no rule", "take it along one dim")
    mean, var = (moment.movedim(dim, 0).flatten(1) for moment in (x.mean, x.var))
    flat = Gaussian(sign * mean, var)
    together = torch.zeros(len(flat), dtype=torch.long, device=x.mean.device)
    best = _moments(flat, together, 1, None)
    shape = x.mean.select(dim, 0).unsqueeze(dim).shape
    out = Gaussian(sign * best.mean.reshape(shape), best.var.reshape(shape))
    _not_independent()
    if not keepdim:
        return Gaussian(out.mean.squeeze(dim), out.var.squeeze(dim))
    if current().tape is None or x.mean.dim() != 2:
        return out
    slope = chances(flat, together, 1)
    if dim in (0, -2):
        return responding(out, x, slope, together)
    return _over_features(out, x, slope.T)


def _over_features(out: Gaussian, x: Gaussian, slope: Tensor) -> Gaussian:  # [rows, 1]
    scaled = Gaussian(slope * x.mean, slope.square() * x.var)
    recorded(scaled, (x, Scale(slope)))
    return recorded(out, (scaled, Dense(torch.ones_like(slope[:1]))))


def _not_independent() -> None:
    """What a network takes the largest of moves together as a rule: to be held against draws."""
    current().approximates("max")


def largest_of(values: Sequence[Gaussian]) -> Gaussian:  # each [nodes, features]
    """Moments of the largest of several values, number by number."""
    rows = Gaussian(*(torch.stack([t.flatten() for t in ts]) for ts in _means_and_vars(values)))
    together = torch.zeros(len(values), dtype=torch.long, device=rows.mean.device)
    best, shape = _moments(rows, together, 1, None), values[0].mean.shape
    out = Gaussian(best.mean.view(shape), best.var.view(shape))
    _not_independent()
    if current().tape is None:
        return out
    slopes = [Scale(slope.view(shape)) for slope in chances(rows, together, 1)]
    return recorded(out, *zip(values, slopes, strict=True))


def _means_and_vars(values: Sequence[Gaussian]) -> tuple[list[Tensor], list[Tensor]]:
    return [value.mean for value in values], [value.var for value in values]


def group_max(
    x: Gaussian,  # [messages, features]
    group: Tensor,  # [messages]
    *,
    groups: int,
    prob: Tensor | None = None,  # [messages]
) -> Gaussian:  # [groups, features]
    """Moments of the largest independent Gaussian of each group; an empty group gives 0.

    Its response to each message is the chance that this is the largest. Coins have none on record.
    """
    out, tape = _moments(x, group.long(), groups, prob), current().tape
    _not_independent()
    if tape is None:
        return out
    if prob is not None:
        tape.note(out, "max")
        return out
    return responding(out, x, chances(x, group.long(), groups), group.long())


def group_min(x: Gaussian, group: Tensor, *, groups: int) -> Gaussian:  # [groups, features]
    """Moments of the smallest independent Gaussian of each group; an empty group gives 0."""
    turned, group = Gaussian(-x.mean, x.var), group.long()
    best = _moments(turned, group, groups, None)
    out = Gaussian(-best.mean, best.var)
    _not_independent()
    if current().tape is None:
        return out
    return responding(out, x, chances(turned, group, groups), group)


def _moments(
    x: Gaussian, group: Tensor, groups: int, prob: Tensor | None
) -> Gaussian:  # [groups, features]
    r"""Moments of the largest independent Gaussian of each group; an empty group gives 0.

    With distribution function :math:`F = \prod_i \Phi((t - \mu_i) / \sigma_i)` on an interval
    :math:`[a, b]` that holds all of it:

    .. math::
        E[y] = a + \int_a^b (1 - F)\,dt \qquad E[(y - a)^2] = 2 \int_a^b (t - a)(1 - F)\,dt

    by Gauss–Legendre with points that crowd at :math:`a`, where narrow Gaussians end. Unlike a
    chain of pairwise maxima, the result does not depend on the order of the messages.

    Messages that come with chance :math:`p_i` have :math:`1 - p_i + p_i \Phi` for :math:`\Phi`;
    with probability :math:`\prod (1 - p_i)` none comes, and the maximum is 0.
    """
    low, width = _interval(x, group, groups, may_be_empty=prob is not None)
    std, absent = x.var.sqrt(), None
    if prob is not None:
        absent = (1 - prob)[:, None]
        # Coins on exact numbers make F a staircase, which no rule for smooth functions can
        # integrate. Its steps are rounded off by the spacing of the points, which widens what
        # is present by as much; that is taken off again at the end.
        blur = 2 * width / POINTS
        std, low, width = (x.var + blur[group].square()).sqrt(), low - 5 * blur, width + 10 * blur
    std = std.clamp_min(torch.finfo(std.dtype).tiny)
    offset = low[group] - x.mean  # small differences first: digits survive large means
    first, second = torch.zeros_like(low), torch.zeros_like(low)
    for point, weight in zip(*_points(), strict=True):
        below = torch.special.ndtr((offset + width[group] * point) / std)
        below = below if absent is None else absent + (1 - absent) * below
        above = 1 - _product(below, group, groups)
        first, second = first + weight * above, second + 2 * weight * point * above
    if absent is not None:
        none, share = _product(absent.expand_as(x.mean), group, groups), _ratio(-low, width)
        first, second = first + none * share, second + none * share.square()
        second = second - _ratio(blur, width).square() * (1 - none)
    spread = (second - first.square()).clamp_min(0)
    return Gaussian(low + width * first, width.square() * spread)


def chances(x: Gaussian, group: Tensor, groups: int) -> Tensor:  # [messages, features]
    r"""How likely each message is the largest of its group, which is the slope of the mean.

    .. math::
        \frac{\partial E[y]}{\partial \mu_i} = P(y = x_i) =
        \int \varphi_i(t) \prod_{j \neq i} \Phi_j(t)\,dt

    on the points of the mean. Messages that are far more certain than others of their group are
    widened to a tenth of the widest, since no points would meet their density.
    """
    index = group[:, None].expand_as(x.mean)
    zeros = x.mean.new_zeros(groups, x.mean.shape[1])
    widest = zeros.scatter_reduce(0, index, x.var, "amax", include_self=False)[group]
    least = (LEAST * (1 + x.mean.abs())).square()
    x = Gaussian(x.mean, x.var.maximum(widest * SHARE**2).maximum(least))
    low, width = _interval(x, group, groups, may_be_empty=False)
    std, offset = x.var.sqrt(), low[group] - x.mean
    total = torch.zeros_like(x.mean)
    for point, weight in zip(*_points(), strict=True):
        t = (offset + width[group] * point) / std
        below = torch.special.log_ndtr(t)
        others = zeros.index_add(0, group, below)[group] - below
        total += weight * torch.exp(others - t.square() / 2)
    total = total / std
    return total / zeros.index_add(0, group, total)[group]  # one of them is the largest


def _interval(
    x: Gaussian, group: Tensor, groups: int, *, may_be_empty: bool
) -> tuple[Tensor, Tensor]:
    """Lower end and width of an interval that holds each group's maximum."""
    reach = REACH.get(x.mean.dtype, REACH_OTHERWISE) * x.var.sqrt()
    index = group[:, None].expand_as(x.mean)
    zeros = x.mean.new_zeros(groups, x.mean.shape[1])
    high = zeros.scatter_reduce(0, index, x.mean + reach, "amax", include_self=may_be_empty)
    side = "amin" if may_be_empty else "amax"  # the best message may be missing
    low = zeros.scatter_reduce(0, index, x.mean - reach, side, include_self=may_be_empty)
    return low, high - low


def _product(factors: Tensor, group: Tensor, groups: int) -> Tensor:
    logs = factors.new_zeros(groups, factors.shape[1]).index_add(0, group, factors.log())
    return logs.exp()


def _ratio(part: Tensor, whole: Tensor) -> Tensor:
    return torch.where(whole > 0, part / whole.where(whole > 0, torch.ones_like(whole)), 0)


def _points() -> tuple[list[float], list[float]]:
    """Gauss–Legendre on [0, 1] in the root of the distance: still more points at the lower end."""
    points, weights = np.polynomial.legendre.leggauss(POINTS)
    root = (points + 1) / 2
    return (root**2).tolist(), (root * weights).tolist()
