"""Class probabilities of logits that are correlated and may be skew, source by source."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from varigraph.moments.softmax_moments import TOTAL_POINTS, normal_points, row_slices
from varigraph.prediction.logits import CorrelatedLogits, diagonal, root_of
from varigraph.prediction.prediction import PARTS

#: Points for the division over sources, which needs less precision than what is divided.
POINTS_FOR_FRACTIONS = 256
#: A variance that counts as none.
NOTHING = 1e-20


def active_parts(logits: CorrelatedLogits) -> list[str]:
    """The parts that cause any variance at all."""
    return [part for part in PARTS if bool(logits.shares[part].any())]


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
    by_source = dict.fromkeys(PARTS, torch.zeros_like(logits.mean))
    if not active:
        return logits.mean.softmax(-1), by_source
    mean, total = _whole(logits, active)
    if len(active) == 1:
        return mean, {**by_source, active[0]: total}
    fractions = _fractions(logits, active)
    return mean, {**by_source, **{part: total * share for part, share in fractions.items()}}


def _whole(logits: CorrelatedLogits, active: Sequence[str]) -> tuple[Tensor, Tensor]:
    """Mean and variance of the softmax, all sources together."""
    shares = {"all": logits.covariance}
    if logits.bent is not None:  # what is bent is drawn apart from what is not
        features = logits.shares["features"]
        shares = {"features": features}
        if len(active) > 1:
            shares["rest"] = logits.covariance - features
    whole = CorrelatedLogits(logits.mean, shares, logits.bent)
    points = _points(whole, sides=1, total=TOTAL_POINTS)
    # Made beforehand: small tensors in between would keep large ones' memory from being used again.
    mean, total = torch.empty_like(logits.mean), torch.empty_like(logits.mean)
    for rows in row_slices(len(mean), points.numel()):
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
    drawn -= mean[..., None]
    return mean, drawn.square_().mean(-1)


def _fractions(logits: CorrelatedLogits, active: Sequence[str]) -> dict[str, Tensor]:
    """What part of the variance each source has; interactions have what is left."""
    parts = CorrelatedLogits(logits.mean, {p: logits.shares[p] for p in active}, logits.bent)
    sources = [part for part in active if part != "interactions"]
    points = _points(parts, sides=2, total=POINTS_FOR_FRACTIONS)
    found = logits.mean.new_empty(len(sources), *logits.mean.shape)
    for rows in row_slices(len(logits.mean), points.numel()):
        found[:, rows] = _shared(parts.rows(rows), sources, points).clamp_min(0)
    found = found / found.sum(0).clamp_min(1)  # what independent sources do alone is never more
    return {**dict(zip(sources, found, strict=True)), "interactions": 1 - found.sum(0)}


def _shared(logits: CorrelatedLogits, sources: list[str], points: Tensor) -> Tensor:
    r""":math:`Cov(y, y_s) / V[y]` for each source, ``[sources, nodes, classes]``.

    For classes that no point reaches, what the source has of the variance of the logit.
    """
    one, two = _moves(logits, points)
    centre = logits.mean[..., None]
    drawn = _softmax(centre + _total(one))
    middle = drawn.mean(-1, keepdim=True)
    drawn -= middle
    var = drawn.square().mean(-1)
    others = centre + _total(two)

    def covariance(part: str) -> Tensor:
        again = _softmax(others - two[part] + one[part])
        again -= middle  # or what is left of small differences would be rounding
        return (again * drawn).mean(-1)

    covariances = [covariance(part) for part in sources]
    sharp = var > NOTHING
    logit = torch.stack([diagonal(logits.shares[part]) for part in sources])
    whole = diagonal(torch.stack(list(logits.shares.values())).sum(0)).clamp_min(NOTHING)
    return torch.where(sharp, torch.stack(covariances) / var.clamp_min(NOTHING), logit / whole)


def _moves(logits: CorrelatedLogits, points: Tensor) -> list[dict[str, Tensor]]:
    """How far each part moves the logits at each point, ``[nodes, classes, points]``, by side."""
    sides: list[dict[str, Tensor]] = [{} for _ in points]
    for number, (part, covariance) in enumerate(logits.shares.items()):
        bent = logits.bent if part == "features" else None
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
