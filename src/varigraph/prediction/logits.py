"""Logits whose classes move together, source by source, and the answer that they give."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from varigraph.moments import Gaussian
from varigraph.prediction.masked import covariance_over_masks
from varigraph.prediction.prediction import PARTS
from varigraph.prediction.question import Question


@dataclass(frozen=True, eq=False)
class CorrelatedLogits:
    """Mean and covariance of each node's logits.

    Args:
        mean: ``[nodes, classes]``.
        shares: covariance due to each part of :data:`PARTS`, ``[nodes, classes, classes]``.
        bend: second order of the logits in what the noise of the features does to them,
            ``[nodes, classes, classes, classes]``; None where they are linear in it.
    """

    mean: Tensor
    shares: Mapping[str, Tensor]
    bend: Tensor | None = None

    def rows(self, index: slice) -> CorrelatedLogits:
        """The same for some of the nodes."""
        bend = None if self.bend is None else self.bend[index]
        shares = {part: share[index] for part, share in self.shares.items()}
        return CorrelatedLogits(self.mean[index], shares, bend)

    @property
    def covariance(self) -> Tensor:  # [nodes, classes, classes]
        """Covariance from all sources together."""
        return torch.stack([self.shares[part] for part in PARTS]).sum(0)

    @property
    def marginal(self) -> Gaussian:  # [nodes, classes]
        """Mean and variance of each logit by itself."""
        return Gaussian(self.mean, diagonal(self.covariance))


def with_sampled_masks(logits: CorrelatedLogits, question: Question) -> CorrelatedLogits:
    """The same logits with the share of the weights by T masks, where that is asked for."""
    if question.weights != "sampled" or question.samples == 0:
        return logits
    return replace(logits, shares={**logits.shares, "weights": covariance_over_masks(question)})


def diagonal(covariance: Tensor) -> Tensor:  # [nodes, classes, classes] -> [nodes, classes]
    """The variances in covariances."""
    return covariance.diagonal(dim1=1, dim2=2).clamp_min(0)
