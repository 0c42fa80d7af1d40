"""The largest of several uncertain numbers."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from varigraph.errors import MissingRuleError
from varigraph.moments.gaussian import Gaussian
from varigraph.moments.propagation import current
from varigraph.moments.registry import implements

POINTS = 64
#: Standard deviations that hold all of a Gaussian, as far as its number type can tell.
REACH = {torch.float64: 9.0}
REACH_OTHERWISE = 6.0


class Largest(NamedTuple):
    """What ``torch.max(x, dim)`` returns; which element is the largest is not certain."""

    values: Gaussian
    indices: None


@implements(
    "max",
    exactness="exact for independent inputs",
    note="numerical integration; torch.max(x, dim) and JumpingKnowledge('max')",
)
def maximum(x: Gaussian, dim: int | None = None, keepdim: bool = False) -> Largest:
    """Moments of the largest value along an axis, by :func:`group_max`."""
    if dim is None:
        raise MissingRuleError("max() over all numbers has no rule", "take it along one dim")
    rows = Gaussian(x.mean.movedim(dim, 0).flatten(1), x.var.movedim(dim, 0).flatten(1))
    best = group_max(rows, torch.zeros_like(rows.mean[:, 0], dtype=torch.long), groups=1)
    shape = x.mean.select(dim, 0).shape
    mean, var = best.mean.reshape(shape), best.var.reshape(shape)
    return Largest(Gaussian(*(m.unsqueeze(dim) if keepdim else m for m in (mean, var))), None)


def group_max(
    x: Gaussian,  # [messages, features]
    group: Tensor,  # [messages]
    *,
    groups: int,
    prob: Tensor | None = None,  # [messages]
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
    group = group.long()  # a scatter takes no smaller index
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
    out = Gaussian(low + width * first, width.square() * spread)
    tape = current().tape
    if tape is not None:
        tape.note(out, "max")
    return out


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
