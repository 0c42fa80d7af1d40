"""The softmax: moments of class probabilities, and a last softmax that is looked through."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.quasirandom import SobolEngine

from varigraph.errors import MissingRuleError
from varigraph.kernels import fused
from varigraph.moments.cotangents import row_slices
from varigraph.moments.gaussian import Gaussian
from varigraph.moments.registry import implements

#: Points over all masks together: few per mask are enough where many masks are averaged.
TOTAL_POINTS = 1024
#: At least this many per mask for each class, and some more: fewer cannot be white.
POINTS_PER_CLASS, MORE_POINTS = 2, 4
#: Numbers that derivatives hold for each probability.
HELD = 8
#: Up to this variance of its logits a softmax is taken by its derivatives: its variance is then
#: within 0.7 % of the true one, as with points, and its mean within 1e-6.
SMALL = 0.0025
#: Up to this variance few points are enough: the variance is within 1.2 %, the mean within 1e-5.
MEDIUM, FEW_POINTS = 0.02, 64
#: Exponents up to here neither overflow nor all vanish in float32.
LARGEST_EXPONENT = 60.0


def points_per_mask(masks: int, classes: int, total: int = TOTAL_POINTS) -> int:
    """How many points each of so many masks gets."""
    return max(total // masks, POINTS_PER_CLASS * classes + MORE_POINTS)


@lru_cache(maxsize=16)
def normal_points(
    masks: int, classes: int, total: int = TOTAL_POINTS
) -> Tensor:  # [masks, points, classes]
    r"""Point sets that stand for a standard normal in as many dimensions as there are classes.

    Sobol points through :math:`\Phi^{-1}`, mirrored, so that odd moments vanish, and whitened, so
    that the covariance of each set is exactly the identity: where the softmax is nearly linear
    over the spread of the logits the result is exact for every mask, and elsewhere the errors of
    different masks average out, because each has points of its own.
    """
    half = points_per_mask(masks, classes, total) // 2
    engine: Any = SobolEngine(classes, scramble=True, seed=0)
    edge = 1 / (4 * masks * half)  # a point farther out would stand for more than its share
    uniform = engine.draw(masks * half, dtype=torch.float64).clamp(edge, 1 - edge)
    points = torch.special.ndtri(uniform).view(masks, half, classes)
    root = torch.linalg.cholesky(points.mT @ points / half)
    points = torch.linalg.solve_triangular(root, points.mT, upper=False).mT
    return torch.cat([points, -points], dim=1)


def class_probabilities(logits: Gaussian, points: Tensor) -> Gaussian:
    r"""Moments of :math:`\mathrm{softmax}(\mu + \sigma \circ z)`.

    Args:
        logits: ``[masks, nodes, classes]``.
        points: ``[masks, points, classes]``, from :func:`normal_points`.

    By derivatives where logits hardly move (:data:`SMALL`), over a set of points z elsewhere, of
    which few are taken where logits move little (:data:`MEDIUM`).
    The means add up to 1 and no variance exceeds :math:`m (1 - m)`, for any input. Where logits
    of several classes spread so far that the softmax saturates (variances of 9), a mean is still
    within 0.03.
    """
    few, medium = normal_points(1, logits.mean.shape[-1], FEW_POINTS), MEDIUM
    if few.shape[1] >= points.shape[1]:
        medium = SMALL
    if fused(logits.mean, logits.var):
        return _by_kernel(logits, points, few[0], medium)
    masks, nodes, classes = logits.mean.shape
    found = Gaussian(*(logits.mean.new_empty(masks, classes, nodes) for _ in range(2)))
    for rows in row_slices(nodes, HELD * masks * classes):
        some = Gaussian(*(x[:, rows].mT.contiguous() for x in (logits.mean, logits.var)))
        _in_tiers(_some_nodes(found, rows), some, few, points, medium)
    return Gaussian(found.mean.mT, found.var.mT)


# From here on nodes come last, in memory too: all goes along whole rows of them.


def _some_nodes(value: Gaussian, rows: slice) -> Gaussian:  # [masks, classes, nodes]
    """Some nodes under all masks."""
    return Gaussian(value.mean[..., rows], value.var[..., rows])


def _in_tiers(
    found: Gaussian, logits: Gaussian, few: Tensor, points: Tensor, medium: float
) -> None:
    """Put in what derivatives say, or as many points as each node needs."""
    largest = logits.var.amax(1)  # [masks, nodes]
    if bool((largest <= SMALL).any()):
        small = _by_derivatives(logits)
        found.mean.copy_(small.mean), found.var.copy_(small.var)
    everywhere = few.expand(len(points), -1, -1)
    for above, up_to, some in (SMALL, medium, everywhere), (medium, float("inf"), points):
        chosen = (largest > above) & (largest <= up_to)
        for mask, count in enumerate(chosen.sum(1).tolist()):
            if count:
                every = count == chosen.shape[1]
                _fill(found, logits, some, mask, None if every else chosen[mask].nonzero().ravel())


def _by_kernel(logits: Gaussian, points: Tensor, few: Tensor, medium: float) -> Gaussian:
    from varigraph.kernels.softmax import softmax_moments  # noqa: PLC0415 - needs Triton

    half, half_of_few = points[:, : points.shape[1] // 2], few[: len(few) // 2]
    tiers = {"small": SMALL, "medium": medium}
    return Gaussian(*softmax_moments(logits.mean, logits.var, half, half_of_few, **tiers))


def _fill(
    found: Gaussian, logits: Gaussian, points: Tensor, mask: int, nodes: Tensor | None
) -> None:
    """Put in what points say about some nodes under a mask, or about all."""
    z = points[mask].T.to(logits.mean).contiguous()
    for block in row_slices(logits.mean.shape[2] if nodes is None else len(nodes), z.numel()):
        at = mask, slice(None), block if nodes is None else nodes[block]
        found.mean[at], found.var[at] = _by_points(logits.mean[at], logits.var[at], z)


def _by_derivatives(logits: Gaussian) -> Gaussian:  # [masks, classes, nodes]
    r"""Second order in the mean, first in the variance, with :math:`q_i = 1 - p_i`.

    .. math::
        V_i = p_i^2 \Big(q_i^2 v_i + \sum_{j \ne i} p_j^2 v_j\Big) \qquad
        E_i = p_i + \frac{V_i}{2 p_i} - \frac{p_i}{2} \sum_j p_j q_j v_j

    All sums are of positive terms, so that nothing cancels where a probability is close to 1.
    """
    p, v = logits.mean.softmax(1), logits.var
    others = 1 - torch.eye(p.shape[1], dtype=p.dtype, device=p.device)
    q = others @ p
    moved = q.square() * v + others @ (p.square() * v)
    shift = (p * q * v).sum(1, keepdim=True)
    return Gaussian(torch.addcmul(p, p, moved - shift, value=0.5), p.square() * moved)


def _by_points(mean: Tensor, var: Tensor, z: Tensor) -> tuple[Tensor, Tensor]:
    """Mean and variance ``[classes, nodes]`` of the softmax over points ``[classes, points]``."""
    centre, std = mean - mean.amax(0), var.sqrt()
    middle = centre.softmax(0)
    drawn = torch.addcmul(centre[:, None], std[:, None], z[..., None])  # [classes, points, nodes]
    if float(std.max() * z.max()) > LARGEST_EXPONENT:
        drawn -= drawn.amax(0)
    total = drawn.exp_().sum(0)
    # Around the middle nothing cancels.
    torch.addcmul(middle[:, None], drawn, total.reciprocal_().neg_(), out=drawn)
    shift = drawn.mean(1)
    var = drawn.square_().mean(1).addcmul_(shift, shift, value=-1).clamp_min_(0)
    return (middle - shift).clamp_min_(0), var


class Logits(Gaussian):
    """The result of the last softmax of a network, known by what stood before it.

    A softmax forgets a common shift of its logits, so ``log_softmax`` as a last step changes no
    probability: the logits are kept, and integrated over once all of their moments are known.

    Args:
        before: the logits, with whatever is on record about them.
        function: what was asked for, a softmax or its logarithm.
    """

    before: Gaussian
    function: Callable[..., Tensor]

    def __init__(self, before: Gaussian, function: Callable[..., Tensor]) -> None:
        self.__dict__.update(before=before, function=function)

    @property
    def mean(self) -> Tensor:
        """Means of the logits."""
        return self.before.mean

    @property
    def var(self) -> Tensor:
        """Variances of the logits."""
        return self.before.var


LAST_STEP = "as the last step of a network; class probabilities are integrated over the logits"


@implements(F.log_softmax, torch.log_softmax, Tensor.log_softmax, exactness="exact",
            modules=[nn.LogSoftmax], note=LAST_STEP)  # fmt: skip
def log_softmax(x: Gaussian, dim: int | None = None, **_: Any) -> Logits:
    """The logits themselves: their softmax is the softmax of the log-softmax."""
    return _last(x, dim, F.log_softmax)


@implements(F.softmax, torch.softmax, Tensor.softmax, exactness="exact",
            modules=[nn.Softmax], note=LAST_STEP)  # fmt: skip
def softmax(x: Gaussian, dim: int | None = None, **_: Any) -> Logits:
    """The logits themselves: the softmax is integrated over them at the end of the pass."""
    return _last(x, dim, F.softmax)


def _last(x: Gaussian, dim: int | None, function: Callable[..., Tensor]) -> Logits:
    if dim not in (-1, x.mean.dim() - 1) or x.mean.dim() > 2:
        raise MissingRuleError(
            f"softmax over dim={dim} of a {x.mean.dim()}-dimensional tensor has no rule",
            "the classes must be the last axis: softmax(x, dim=-1)",
        )
    return Logits(x, function)


def remember_logit(chance: Gaussian, before: Gaussian) -> Gaussian:
    """The result of a sigmoid, which knows what stood before it: it may be the last step.

    Unlike a softmax a sigmoid also stands inside of networks, where its result is used.
    """
    vars(chance)["before_sigmoid"] = before
    return chance


def before_sigmoid(value: Gaussian) -> Gaussian | None:
    """What stood before the sigmoid that a value is the result of, if it is."""
    before: Gaussian | None = vars(value).get("before_sigmoid")
    return before


#: Functions that move numbers about, however, and change none.
ANY_MOVE = frozenset(["__getitem__", "index_select", "squeeze", "unsqueeze", "flatten", "view",
                      "reshape", "ravel", "contiguous"])  # fmt: skip


def passes_chances(function: Callable[..., Any]) -> bool:
    """Whether a function may be applied to the result of a last sigmoid."""
    return function.__name__ in ANY_MOVE


def passes_logits(function: Callable[..., Any]) -> bool:
    """Whether a function may be applied to the result of a softmax: picking rows, no arithmetic."""
    return function in (Tensor.__getitem__, torch.index_select, Tensor.index_select)
