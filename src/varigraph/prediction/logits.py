"""Logits whose classes move together, source by source, and the answer that they give."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from varigraph.moments import Gaussian
from varigraph.moments.softmax import normal_points
from varigraph.prediction.masked import covariance_over_masks
from varigraph.prediction.prediction import PARTS, Prediction
from varigraph.prediction.question import Question

#: Numbers that are held at once while class probabilities are integrated.
AT_ONCE = 2**24


@dataclass(frozen=True, eq=False)
class CorrelatedLogits:
    """Mean and covariance of each node's logits.

    Args:
        mean: ``[nodes, classes]``.
        shares: covariance due to each part of :data:`PARTS`, ``[nodes, classes, classes]``.
    """

    mean: Tensor
    shares: Mapping[str, Tensor]

    @property
    def covariance(self) -> Tensor:  # [nodes, classes, classes]
        """Covariance from all sources together."""
        return torch.stack([self.shares[part] for part in PARTS]).sum(0)

    @property
    def marginal(self) -> Gaussian:  # [nodes, classes]
        """Mean and variance of each logit by itself."""
        return Gaussian(self.mean, _diagonal(self.covariance))


def answer(logits: CorrelatedLogits, question: Question, *, method: str) -> Prediction:
    """The prediction that logits give: their softmax, or in regression the values themselves."""
    if question.task == "regression":
        mean = logits.mean
        by_source = {part: _diagonal(logits.shares[part]) for part in PARTS}
    else:
        mean, by_source = class_probabilities(logits)
    return Prediction(
        mean=mean,
        by_source=by_source,
        logits=logits.marginal,
        method=method,
        samples=0,
        task=question.task,
    )


def with_sampled_masks(logits: CorrelatedLogits, question: Question) -> CorrelatedLogits:
    """The same logits with the share of the weights by T masks, where that is asked for."""
    if question.weights != "sampled" or question.samples == 0:
        return logits
    return replace(logits, shares={**logits.shares, "weights": covariance_over_masks(question)})


def class_probabilities(logits: CorrelatedLogits) -> tuple[Tensor, dict[str, Tensor]]:
    r"""Mean of the softmax and its variance by source, by pairs of points in the logit space.

    With roots :math:`L_s L_s' = \Sigma_s`, draws :math:`y = \mathrm{softmax}(\mu + \sum L_s z_s)`
    and :math:`y_s` that shares only :math:`z_s` with y: :math:`V[E[y \mid s]] = Cov(y, y_s)`.
    """
    nodes, classes = logits.mean.shape
    active = [part for part in PARTS if bool(logits.shares[part].any())]
    points = normal_points(1, 2 * classes * max(len(active), 1))[0].to(logits.mean)
    mean = torch.empty_like(logits.mean)
    by_source = {part: torch.zeros_like(mean) for part in PARTS}
    step = max(1, AT_ONCE // (len(points) * classes))
    for rows in torch.arange(nodes, device=mean.device).split(step):
        block = CorrelatedLogits(
            logits.mean[rows], {part: logits.shares[part][rows] for part in active}
        )
        mean[rows], shares = _integrated(block, points)
        for part in active:
            by_source[part][rows] = shares[part]
    return mean, by_source


def _integrated(logits: CorrelatedLogits, points: Tensor) -> tuple[Tensor, dict[str, Tensor]]:
    active = list(logits.shares)
    if not active:
        return logits.mean.softmax(-1), {}
    classes = logits.mean.shape[1]
    first, second = points.split(classes * len(active), dim=1)
    moved = [
        [
            root(logits.shares[part]) @ z.T
            for part, z in zip(active, side.split(classes, 1), strict=True)
        ]
        for side in (first, second)
    ]  # [nodes, classes, points] for both sides and every part
    drawn = _softmax(logits.mean, moved[0])
    mean = drawn.mean(-1)
    total = drawn.var(-1, correction=0)
    if len(active) == 1:
        return mean, {active[0]: total}
    shares = {}
    for i, part in enumerate(active):
        if part == "interactions":
            continue
        mixed = [moved[0][j] if j == i else moved[1][j] for j in range(len(active))]
        other = _softmax(logits.mean, mixed)
        shares[part] = ((drawn - mean[..., None]) * (other - other.mean(-1, keepdim=True))).mean(-1)
    shares["interactions"] = total - sum(shares.values())
    return mean, shares


def _softmax(mean: Tensor, moved: list[Tensor]) -> Tensor:  # [nodes, classes, points]
    return (mean[..., None] + torch.stack(moved).sum(0)).softmax(1)


def root(covariance: Tensor) -> Tensor:  # [nodes, classes, classes]
    """A square root of each covariance, also where it is singular or slightly indefinite."""
    energy, vectors = torch.linalg.eigh(covariance)
    square_root: Tensor = vectors * energy.clamp_min(0).sqrt()[:, None]
    return square_root


def _diagonal(covariance: Tensor) -> Tensor:
    return covariance.diagonal(dim1=1, dim2=2).clamp_min(0)
