"""Probabilities of classes and labels: what correlated logits give, and from which source."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from varigraph.moments import Gaussian
from varigraph.moments.activations import integrated
from varigraph.moments.cotangents import row_slices
from varigraph.moments.softmax import TOTAL_POINTS, normal_points
from varigraph.prediction.logits import (
    Bent,
    CorrelatedLogits,
    active_parts,
    class_pairs,
    diagonal,
    root_of,
    with_interactions,
)
from varigraph.prediction.sources.source import INTERACTIONS

#: Points for the division over sources, which needs less precision than what is divided.
POINTS_FOR_FRACTIONS = 256
#: A part of the variance that so few points cannot tell from none.
NEGLIGIBLE = 1e-3
#: Up to this variance of its logits a softmax is taken by its derivatives: as exact as points, and
#: rounding is not taken for variance.
SMALL = 1e-6


def class_probabilities(
    logits: CorrelatedLogits, active: Sequence[str] | None = None
) -> tuple[Tensor, dict[str, Tensor]]:
    r"""Mean of the softmax and its variance by source, by points in the space of the logits.

    With roots :math:`L_s L_s' = \Sigma_s`, draws :math:`y = \mathrm{softmax}(\mu + \sum L_s z_s)`
    and :math:`y_s` that shares only :math:`z_s` with y: :math:`V[E[y \mid s]] = Cov(y, y_s)`.

    Args:
        logits: of all nodes or of some.
        active: the parts to draw points for, the same for every block of nodes; those that cause
            any variance if left out.
    """
    active = active_parts(logits) if active is None else active
    by_source = dict.fromkeys(logits.shares, torch.zeros_like(logits.mean))
    if not active:
        return logits.mean.softmax(-1), by_source
    p, covariance = logits.mean.softmax(1), logits.covariance
    moved = _moved(p, covariance)
    mean, total = _by_derivatives(p, moved)
    fractions = _fractions_by_derivatives(logits, active, p, moved)
    large = (diagonal(covariance).amax(1) > SMALL).nonzero().ravel()
    if len(large) > 0:
        some = logits if len(large) == len(mean) else logits.rows(large)
        mean[large], total[large] = _whole(some, active)
        if len(active) > 1:
            first = {part: share[large] for part, share in fractions.items()}
            for part, share in _fractions(some, active, first).items():
                fractions[part][large] = share
    return mean, {**by_source, **{part: total * share for part, share in fractions.items()}}


def label_probabilities(
    logits: CorrelatedLogits, active: Sequence[str] | None = None
) -> tuple[Tensor, dict[str, Tensor]]:
    r"""Mean of the sigmoid of every logit and its variance by source.

    .. math::
        E[\sigma(z)] = \int \sigma(\mu + s u)\,\varphi(u)\,du + \text{what bends add}

    The integral is exact. What bends add and how sources divide the variance is by points,
    with :math:`\sigma(z) = \mathrm{softmax}(z, 0)_1`: each label is a node of its own with two
    classes, of which the second has a certain logit.

    Args:
        logits: of all nodes or of some, ``[nodes, labels]``.
        active: as in :func:`class_probabilities`.
    """
    active = active_parts(logits) if active is None else active
    shape, alone = logits.mean.shape, _beside_zero(logits)
    mean, parts = _of_first(class_probabilities(alone, active))
    known_mean, known = mean, parts
    if alone.bent is not None:
        none = torch.zeros_like(alone.covariance)
        shares = {**dict.fromkeys(alone.shares, none), alone.bent.part: alone.covariance}
        straight = CorrelatedLogits(alone.mean, shares)
        known_mean, known = _of_first(class_probabilities(straight, [alone.bent.part]))
    exact = integrated(torch.sigmoid, Gaussian(logits.mean, diagonal(logits.covariance)))
    total = sum(known.values(), torch.zeros_like(mean))
    factor = torch.where(total > 0, exact.var.flatten() / total, 1)
    mean = (exact.mean.flatten() + (mean - known_mean)).clamp(0, 1)
    return mean.view(shape), {part: (factor * var).view(shape) for part, var in parts.items()}


def _of_first(found: tuple[Tensor, dict[str, Tensor]]) -> tuple[Tensor, dict[str, Tensor]]:
    """Mean and variances of the first class alone, ``[nodes]`` each."""
    return found[0][:, 0], {part: var[:, 0] for part, var in found[1].items()}


def _beside_zero(logits: CorrelatedLogits) -> CorrelatedLogits:
    """Each logit by itself and a certain 0, ``[nodes x labels, 2]``."""
    mean = logits.mean.reshape(-1, 1)
    shares = {part: _corner(diagonal(share)) for part, share in logits.shares.items()}
    bent = None if logits.bent is None else _bent_alone(logits, logits.bent)
    return CorrelatedLogits(torch.cat([mean, torch.zeros_like(mean)], 1), shares, bent)


def _corner(var: Tensor) -> Tensor:  # [nodes, labels] -> [nodes x labels, 2, 2]
    corner = torch.zeros(2, 2, dtype=var.dtype, device=var.device)
    corner[0, 0] = 1
    return var.reshape(-1, 1, 1) * corner


def _bent_alone(logits: CorrelatedLogits, bent: Bent) -> Bent:
    r"""The bend of each logit along its own straight response, :math:`k = e' \tilde K e`.

    With the unit vector e of the row of L. What is bent across it counts as straight: it adds to
    the variance, and in third moments only the product of three small bends is lost.
    """
    root = root_of(logits.shares[bent.part] - bent.covariance)
    along = torch.nn.functional.normalize(root, dim=-1)  # [nodes, labels, labels]
    b, c = class_pairs(root)
    twice = 2 - (b == c).to(along)  # two different ones stand for both of their orders
    own = (bent.white * twice * along[..., b] * along[..., c]).sum(-1)
    # Of (z, z), (z, 0) and (0, 0) only the first pair bends, and only z.
    white = torch.zeros(own.numel(), 2, 3, dtype=own.dtype, device=own.device)
    white[:, 0, 0] = own.flatten()
    return Bent(white, _corner(own.square() / 2), bent.part)


def _by_derivatives(p: Tensor, moved: Tensor) -> tuple[Tensor, Tensor]:  # [nodes, classes] each
    r"""Mean and variance of the softmax to second order, with :math:`w_i = e_i - p`.

    .. math::
        V_i = p_i^2\, a_i \qquad E_i = p_i + \frac{p_i}{2} \Big(a_i - \sum_j p_j a_j\Big)
        \qquad a_i = w_i' \Sigma w_i

    Args:
        p: the softmax of the mean.
        moved: a.
    """
    shift = moved - (p * moved).sum(1, keepdim=True)
    return torch.addcmul(p, p, shift, value=0.5), p.square() * moved


def _fractions_by_derivatives(
    logits: CorrelatedLogits, active: Sequence[str], p: Tensor, moved: Tensor
) -> dict[str, Tensor]:  # [nodes, classes] each
    r"""What part of the variance each source has, to first order: :math:`w' \Sigma_s w`."""
    if len(active) == 1:
        return {active[0]: torch.ones_like(p)}
    whole = torch.where(moved > 0, moved, 1)
    sources = [part for part in active if part != INTERACTIONS]
    shares = {part: _moved(p, logits.shares[part]) / whole for part in sources}
    return with_interactions(shares, torch.ones_like(whole))


def _moved(p: Tensor, covariance: Tensor) -> Tensor:  # [nodes, classes], [nodes, classes, classes]
    r""":math:`a_i = w_i' \Sigma w_i` by class; :math:`1 - p_i` is summed up, not subtracted."""
    own = torch.eye(p.shape[1], dtype=p.dtype, device=p.device)
    away = torch.diag_embed(p @ (1 - own)) - p[:, None] * (1 - own)
    return ((away @ covariance) * away).sum(-1).clamp_min(0)


def _whole(logits: CorrelatedLogits, active: Sequence[str]) -> tuple[Tensor, Tensor]:
    """Mean and variance of the softmax, all sources together."""
    shares = {"all": logits.covariance}
    if logits.bent is not None:  # what is bent is drawn apart from what is not
        own = logits.shares[logits.bent.part]
        shares = {logits.bent.part: own}
        if len(active) > 1:
            shares["rest"] = logits.covariance - own
    whole = CorrelatedLogits(logits.mean, shares, logits.bent)
    points = _points(whole, sides=1, total=TOTAL_POINTS)
    # Made beforehand: small tensors in between would keep large ones' memory from being used again.
    mean, total = torch.empty_like(logits.mean), torch.empty_like(logits.mean)
    for rows in row_slices(len(mean), points.numel(), mean.device):
        mean[rows], total[rows] = _moments(whole.rows(rows), points[0])
    return mean, total


def _points(logits: CorrelatedLogits, *, sides: int, total: int) -> Tensor:
    """Points in the space of all parts, ``[sides, parts, classes, points]``."""
    parts, classes = len(logits.shares), logits.mean.shape[1]
    points = normal_points(1, sides * parts * classes, total)[0].to(logits.mean)
    return points.T.contiguous().view(sides, parts, classes, -1)


def _moments(logits: CorrelatedLogits, points: Tensor) -> tuple[Tensor, Tensor]:
    moves = _moves(logits, points[None])[0]
    drawn = _softmax(logits.mean[..., None] + _total(moves))
    mean = drawn.mean(-1)
    return mean, _around(drawn, mean[..., None]).square_().mean(-1)


def _fractions(
    logits: CorrelatedLogits, active: Sequence[str], first: Mapping[str, Tensor]
) -> dict[str, Tensor]:  # [nodes, classes] each
    """What part of the variance each source has; interactions have what is left.

    Points are too few to tell what is next to nothing: there first order has the word.
    """
    parts = CorrelatedLogits(logits.mean, {p: logits.shares[p] for p in active}, logits.bent)
    sources = [part for part in active if part != INTERACTIONS]
    points = _points(parts, sides=2, total=POINTS_FOR_FRACTIONS)
    found = logits.mean.new_empty(len(sources), *logits.mean.shape)
    for rows in row_slices(len(logits.mean), points.numel(), logits.mean.device):
        found[:, rows] = _shared(parts.rows(rows), sources, points)
    shares = {
        part: torch.where(first[part] < NEGLIGIBLE, first[part], share)
        for part, share in zip(sources, found, strict=True)
    }
    return with_interactions(shares, torch.ones_like(logits.mean))


def _shared(logits: CorrelatedLogits, sources: list[str], points: Tensor) -> Tensor:
    r""":math:`Cov(y, y_s) / V[y]` for each source, ``[sources, nodes, classes]``."""
    one, two = _moves(logits, points)
    centre = logits.mean[..., None]
    drawn = _softmax(centre + _total(one))
    middle = drawn.mean(-1, keepdim=True)
    drawn = _around(drawn, middle)
    var = drawn.square().mean(-1)
    others = centre + _total(two)

    def covariance(part: str) -> Tensor:
        again = _around(_softmax(others - two[part] + one[part]), middle)
        return (again * drawn).mean(-1)

    covariances = torch.stack([covariance(part) for part in sources])
    return covariances / torch.where(var > 0, var, 1)


def _around(drawn: Tensor, middle: Tensor) -> Tensor:  # [nodes, classes, points], [.., 1]
    """Class probabilities around their middle, in place.

    That of the likeliest class is what the others lack: by itself, near 1, it would be rounding.
    """
    drawn -= middle
    top = middle.argmax(1, keepdim=True).expand(-1, 1, drawn.shape[-1])
    return drawn.scatter_add_(1, top, -drawn.sum(1, keepdim=True))


def _moves(logits: CorrelatedLogits, points: Tensor) -> list[dict[str, Tensor]]:
    """How far each part moves the logits at each point, ``[nodes, classes, points]``, by side."""
    sides: list[dict[str, Tensor]] = [{} for _ in points]
    for number, (part, covariance) in enumerate(logits.shares.items()):
        bent = logits.bent if logits.bent is not None and logits.bent.part == part else None
        root = root_of(covariance if bent is None else covariance - bent.covariance)
        for side, z in zip(sides, points[:, number], strict=True):
            side[part] = root @ z
            if bent is not None:
                side[part] += bent.moved(z)
    return sides


def _total(moves: dict[str, Tensor]) -> Tensor:
    first, *others = moves.values()
    return sum(others, first)


def _softmax(logits: Tensor) -> Tensor:  # [nodes, classes, points]
    """Softmax over the classes, in place."""
    logits -= logits.amax(1, keepdim=True)
    logits.exp_()
    logits *= logits.sum(1, keepdim=True).reciprocal_()
    return logits
