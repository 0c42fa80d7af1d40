"""Class probabilities of logits that are correlated and may be skew, source by source."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from varigraph.moments.softmax import normal_points, row_slices, softmax_
from varigraph.prediction.logits import CorrelatedLogits
from varigraph.prediction.prediction import PARTS

#: Directions in which logits move less than this, in units of their largest move, count as still.
STILL = 1e-3
#: Points for the division over sources, which needs less precision than what is divided.
POINTS_FOR_FRACTIONS = 256


def class_probabilities(logits: CorrelatedLogits) -> tuple[Tensor, dict[str, Tensor]]:
    r"""Mean of the softmax and its variance by source, by points in the space of the logits.

    With roots :math:`L_s L_s' = \Sigma_s`, draws :math:`y = \mathrm{softmax}(\mu + \sum L_s z_s)`
    and :math:`y_s` that shares only :math:`z_s` with y: :math:`V[E[y \mid s]] = Cov(y, y_s)`.
    """
    active = [part for part in PARTS if bool(logits.shares[part].any())]
    by_source = dict.fromkeys(PARTS, torch.zeros_like(logits.mean))
    if not active:
        return logits.mean.softmax(-1), by_source
    whole = CorrelatedLogits(logits.mean, {"all": logits.covariance}, logits.bend)
    points = normal_points(1, logits.mean.shape[1])[0].T.contiguous().to(logits.mean)
    blocks = [_moments(block, points) for block in _blocks(whole, points.shape[1])]
    mean, total = (torch.cat(parts) for parts in zip(*blocks, strict=True))
    if len(active) == 1:
        return mean, {**by_source, active[0]: total}
    fractions = _fractions(logits, active)
    return mean, {**by_source, **{part: total * fractions[part] for part in active}}


def _blocks(logits: CorrelatedLogits, points: int) -> Iterator[CorrelatedLogits]:
    nodes, classes = logits.mean.shape
    return (logits.rows(rows) for rows in row_slices(nodes, classes * points))


def _moments(logits: CorrelatedLogits, points: Tensor) -> tuple[Tensor, Tensor]:
    """Mean and variance of the softmax, all sources together."""
    drawn = softmax_(_Source.of(logits, "all").moved(points).add_(logits.mean[..., None]))
    mean = drawn.mean(-1)
    drawn -= mean[..., None]
    return mean, drawn.square_().mean(-1)


def _fractions(logits: CorrelatedLogits, active: list[str]) -> dict[str, Tensor]:
    """What part of the variance each source has; interactions have what is left."""
    sources = [part for part in active if part != "interactions"]
    size = logits.mean.shape[1] * len(active)
    points = normal_points(1, 2 * size, POINTS_FOR_FRACTIONS)[0].T.contiguous().to(logits.mean)
    blocks = [
        _shared(block, active, sources, points)
        for block in _blocks(logits, 2 * len(active) * points.shape[1])
    ]
    found = dict(zip(sources, torch.cat(blocks, dim=1), strict=True))
    return {**found, "interactions": 1 - torch.stack(list(found.values())).sum(0)}


def _shared(
    logits: CorrelatedLogits, active: list[str], sources: list[str], points: Tensor
) -> Tensor:  # [sources, nodes, classes]
    r""":math:`Cov(y, y_s) / V[y]` for each source."""
    found = {part: _Source.of(logits, part) for part in active}
    moves = [
        {part: found[part].moved(z) for part, z in zip(active, side, strict=True)}
        for side in points.view(2, len(active), -1, points.shape[1])
    ]  # [nodes, classes, points] for each side and part
    centre = logits.mean[..., None]
    drawn = softmax_(centre + torch.stack(list(moves[0].values())).sum(0))
    drawn -= drawn.mean(-1, keepdim=True)
    var = drawn.square().mean(-1).clamp_min(torch.finfo(drawn.dtype).tiny)
    others = centre + torch.stack(list(moves[1].values())).sum(0)
    covariances = [
        (drawn * softmax_(others - moves[1][part] + moves[0][part])).mean(-1) for part in sources
    ]
    return torch.stack(covariances) / var


@dataclass(frozen=True, eq=False)
class _Source:
    r"""How a source moves the logits of each node.

    Args:
        root: of its covariance, ``[nodes, classes, classes]``.
        bend: :math:`\tilde K`, the second order in coordinates in which the source is standard
            normal, for b <= c: ``[nodes, classes, pairs of classes]``. None: a Gaussian.
    """

    root: Tensor
    bend: Tensor | None

    @classmethod
    def of(cls, logits: CorrelatedLogits, part: str) -> _Source:
        root, inverse = _roots(logits.shares[part])
        if part not in ("all", "features") or logits.bend is None:
            return cls(root, None)
        white = inverse[:, None] @ logits.bend @ inverse.mT[:, None]
        b, c = _class_pairs(root)
        return cls(root, white[:, :, b, c])

    def moved(self, z: Tensor) -> Tensor:  # [classes, points] -> [nodes, classes, points]
        r""":math:`L z + \frac12 \sum_{bc} \tilde K_{abc} (z_b z_c - \delta_{bc})`."""
        straight = self.root @ z
        if self.bend is None:
            return straight
        b, c = _class_pairs(self.root)
        same = (b == c).to(z)[:, None]
        weight = 1 - same / 2  # two different classes stand for both of their orders
        straight += self.bend @ (weight * (z[b] * z[c] - same))
        return straight


def _class_pairs(root: Tensor) -> Tensor:  # [2, pairs of classes]
    classes = root.shape[-1]
    return torch.triu_indices(classes, classes, device=root.device)


def _roots(covariance: Tensor) -> tuple[Tensor, Tensor]:  # [nodes, classes, classes]
    """A square root of each covariance and its inverse on the directions that move at all."""
    energy, vectors = torch.linalg.eigh(covariance)
    size = energy.clamp_min(0).sqrt()
    moves = size > STILL * size[:, -1:]
    inverse = torch.where(moves, 1 / size.clamp_min(torch.finfo(size.dtype).tiny), 0.0)
    return vectors * size[:, None], inverse[..., None] * vectors.mT
