"""Moments of class probabilities in one trip through memory."""

# mypy: disable-error-code="no-untyped-def, no-untyped-call, untyped-decorator"
from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

#: Numbers that one program, a single warp, works on: more would not fit in its registers.
NUMBERS = 512
LOG2_E = tl.constexpr(1.4426950408889634)
#: An exponent that neither overflows nor makes all of a sum vanish.
LARGEST_EXPONENT = tl.constexpr(60.0)


def softmax_moments(
    mean: Tensor,  # [masks, nodes, classes]
    var: Tensor,  # [masks, nodes, classes]
    points: Tensor,  # [masks, points, classes]
    few: Tensor,  # [points, classes]
    *,
    small: float,
    medium: float,
) -> tuple[Tensor, Tensor]:
    """Mean and variance of the softmax of Gaussian logits.

    Args:
        mean: of the logits.
        var: of the logits.
        points: one half of a mirrored set of points for each mask.
        few: one half of a smaller set, the same for all masks.
        small: up to this variance of a node's logits derivatives are taken.
        medium: up to this one the few points.
    """
    masks, nodes, classes = mean.shape
    mean, var = mean.contiguous(), var.contiguous()
    reach = max(float(points.abs().max()), float(few.abs().max()))
    points, few = points.to(mean), few.to(mean)
    out = torch.empty_like(mean), torch.empty_like(mean)
    width = max(triton.next_power_of_2(classes), 2)
    together = max(NUMBERS // width, 1)
    _moments[triton.cdiv(nodes, together), masks](
        mean, var, points.contiguous(), few.contiguous(), *out,
        nodes, classes, small, medium, reach, 1,
        POINTS=points.shape[1], FEW=len(few), CLASSES=width, NODES=together, num_warps=1,
    )  # fmt: skip
    return out


@triton.jit(do_not_specialize=["one"])
def _moments(
    mean, var, points, few, out_mean, out_var, nodes, classes, small, medium, reach, one,
    POINTS: tl.constexpr, FEW: tl.constexpr, CLASSES: tl.constexpr, NODES: tl.constexpr,
):  # fmt: skip
    mask = tl.program_id(1).to(tl.int64)
    node = tl.program_id(0).to(tl.int64) * NODES + tl.arange(0, NODES)
    # Not known to be neighbours in memory, classes are spread over few threads: their sums are
    # then taken within threads, which is what most of the time goes into.
    number = tl.arange(0, CLASSES) * one
    # Beyond the last node the last is worked on again.
    at = (mask * nodes + tl.minimum(node, nodes - 1))[:, None] * classes + number[None, :]
    real = (number < classes)[None, :]
    centre = tl.load(mean + at, mask=real, other=float("-inf"))
    spread = tl.load(var + at, mask=real, other=0.0)
    centre -= tl.max(centre, 1)[:, None]
    p, m, v = _by_derivatives(centre, spread, number)
    largest = tl.max(spread, 1)
    far = tl.sqrt(tl.max(largest, 0)) * reach > LARGEST_EXPONENT
    within = (largest > small) & (largest <= medium)
    if tl.max(within.to(tl.int32), 0) > 0:
        m_few, v_few = _by_points(centre, spread, p, few, number, classes, FEW, False)
        m, v = tl.where(within[:, None], m_few, m), tl.where(within[:, None], v_few, v)
    beyond = largest > medium
    if tl.max(beyond.to(tl.int32), 0) > 0:
        own = points + mask * POINTS * classes
        if far:
            m_all, v_all = _by_points(centre, spread, p, own, number, classes, POINTS, True)
        else:
            m_all, v_all = _by_points(centre, spread, p, own, number, classes, POINTS, False)
        m, v = tl.where(beyond[:, None], m_all, m), tl.where(beyond[:, None], v_all, v)
    tl.store(out_mean + at, m, mask=real)
    tl.store(out_var + at, v, mask=real)


@triton.jit
def _by_derivatives(centre, v, number):
    """Probabilities at the means, and mean and variance to second and first order.

    What the others have together is their sum only for the likeliest class: for any other it is
    all less its own, of which there is at most half, so that nothing cancels.
    """
    first = number[None, :] == tl.argmax(centre, 1)[:, None]
    weight = tl.exp(centre)
    rest = tl.sum(tl.where(first, 0.0, weight), 1)[:, None]
    p = weight / (1 + rest)
    q = tl.where(first, rest / (1 + rest), 1 - p)
    own = p * p * v
    of_rest = tl.sum(tl.where(first, 0.0, own), 1)[:, None]
    of_all = of_rest + tl.sum(tl.where(first, own, 0.0), 1)[:, None]
    moved = q * q * v + tl.where(first, of_rest, tl.maximum(of_all - own, 0.0))
    shift = tl.sum(p * q * v, 1)[:, None]
    return p, p + 0.5 * p * (moved - shift), p * p * moved


@triton.jit
def _by_points(
    centre, v, p, points, number, classes, POINTS: tl.constexpr, FAR: tl.constexpr
):  # fmt: skip
    """Mean and variance over points and their mirror images, summed around p."""
    centre, std = centre * LOG2_E, tl.sqrt(v) * LOG2_E
    first, second = tl.zeros_like(p), tl.zeros_like(p)
    for point in range(POINTS):
        z = tl.load(points + point * classes + number, mask=number < classes, other=0.0)
        move = std * z[None, :]
        for sign in tl.static_range(2):
            logit = centre + move if sign == 0 else centre - move
            if FAR:
                logit -= tl.max(logit, 1)[:, None]
            weight = tl.exp2(logit)
            away = weight * (1 / tl.sum(weight, 1))[:, None] - p
            first += away
            second += away * away
    first = first / (2 * POINTS)
    var = second / (2 * POINTS) - first * first
    return tl.maximum(p + first, 0.0), tl.maximum(var, 0.0)
