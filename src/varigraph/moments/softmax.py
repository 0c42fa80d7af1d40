"""From uncertain logits to uncertain class probabilities."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.quasirandom import SobolEngine

from varigraph.errors import MissingRuleError
from varigraph.moments.gaussian import Gaussian
from varigraph.moments.registry import implements

#: Points over all masks together: few per mask are enough where many masks are averaged.
TOTAL_POINTS = 1024
POINTS_PER_CLASS = 4
#: Numbers that are held at once while class probabilities are integrated: some megabytes.
AT_ONCE = 2**20


class Logits(Gaussian):
    """What stood before the last softmax of a network.

    A softmax forgets a common shift of its logits, so ``log_softmax`` as a last step changes no
    probability: the logits are kept, and integrated over once all of their moments are known.
    """


LAST_STEP = "as the last step of a network; class probabilities are integrated over the logits"


@implements(F.log_softmax, torch.log_softmax, Tensor.log_softmax, exactness="exact",
            modules=[nn.LogSoftmax], note=LAST_STEP)  # fmt: skip
def log_softmax(x: Gaussian, dim: int | None = None, **_: Any) -> Logits:
    """The logits themselves: their softmax is the softmax of the log-softmax."""
    return _last(x, dim)


@implements(F.softmax, torch.softmax, Tensor.softmax, exactness="exact",
            modules=[nn.Softmax], note=LAST_STEP)  # fmt: skip
def softmax(x: Gaussian, dim: int | None = None, **_: Any) -> Logits:
    """The logits themselves: the softmax is integrated over them at the end of the pass."""
    return _last(x, dim)


def _last(x: Gaussian, dim: int | None) -> Logits:
    if dim not in (-1, x.mean.dim() - 1):
        raise MissingRuleError(
            f"softmax over dim={dim} of a {x.mean.dim()}-dimensional tensor has no rule",
            "the classes must be the last axis: softmax(x, dim=-1)",
        )
    return Logits(x.mean, x.var)


def passes_logits(function: Callable[..., Any]) -> bool:
    """Whether a function may be applied to the result of a softmax: picking rows, no arithmetic."""
    return function in (Tensor.__getitem__, torch.index_select, Tensor.index_select)


@lru_cache(maxsize=8)
def normal_points(
    masks: int, classes: int, total: int = TOTAL_POINTS
) -> Tensor:  # [masks, points, classes]
    r"""Point sets that stand for a standard normal in as many dimensions as there are classes.

    Sobol points through :math:`\Phi^{-1}`, mirrored, so that odd moments vanish, and whitened, so
    that the covariance of each set is exactly the identity: where the softmax is nearly linear
    over the spread of the logits the result is exact for every mask, and elsewhere the errors of
    different masks average out, because each has points of its own.
    """
    half = max(total // masks, POINTS_PER_CLASS * classes) // 2
    engine: Any = SobolEngine(classes, scramble=True, seed=0)
    edge = 1 / (4 * masks * half)  # a point farther out would stand for more than its share
    uniform = engine.draw(masks * half, dtype=torch.float64).clamp(edge, 1 - edge)
    points = torch.special.ndtri(uniform).view(masks, half, classes)
    root = torch.linalg.cholesky(points.mT @ points / half)
    points = torch.linalg.solve_triangular(root, points.mT, upper=False).mT
    return torch.cat([points, -points], dim=1)


def class_probabilities(logits: Gaussian, points: Tensor) -> Gaussian:
    r"""Moments of :math:`\mathrm{softmax}(\mu + \sigma \circ z)` over a set of points z.

    Args:
        logits: ``[masks, nodes, classes]``.
        points: ``[masks, points, classes]``, from :func:`normal_points`.

    The result is the mean and variance of actual probability vectors. So, for any input, the means
    add up to 1 and no variance exceeds :math:`m (1 - m)`. Where logits of several classes spread so
    far that the softmax saturates (variances of 9), a mean is still within 0.03.
    """
    if not bool(logits.var.any()):
        return Gaussian.certain(logits.mean.softmax(-1))
    mean, var = torch.empty_like(logits.mean), torch.empty_like(logits.mean)
    masks, nodes, classes = logits.mean.shape
    centre, std = logits.mean[..., None], logits.var.sqrt()[..., None]
    points = points.to(logits.mean).mT  # [masks, classes, points]
    for mask in range(masks):
        for rows in row_slices(nodes, classes * points.shape[-1]):
            drawn = softmax_(centre[mask, rows] + std[mask, rows] * points[mask])
            mean[mask, rows] = drawn.mean(-1)
            drawn -= mean[mask, rows, :, None]
            var[mask, rows] = drawn.square_().mean(-1)
    return Gaussian(mean, var)


def softmax_(logits: Tensor) -> Tensor:  # [nodes, classes, points]
    """Softmax over the classes, in place."""
    logits -= logits.amax(1, keepdim=True)
    logits.exp_()
    logits /= logits.sum(1, keepdim=True)
    return logits


def row_slices(nodes: int, numbers: int) -> Iterator[slice]:
    """Slices of the nodes such that what is computed at once fits in a processor's cache.

    Args:
        nodes: how many there are.
        numbers: how many numbers each of them needs.
    """
    step = max(1, AT_ONCE // numbers)
    return (slice(first, first + step) for first in range(0, nodes, step))
