"""Averaging over dropout masks, a few at a time."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from varigraph.moments import Gaussian


@dataclass(frozen=True, eq=False)
class Mixture:
    r"""Running moments of a mixture of Gaussians (law of total variance).

    Args:
        count: number T of components so far.
        mean: :math:`\bar m = \frac{1}{T} \sum m_t`.
        within: :math:`\frac{1}{T} \sum v_t`, the mean of the variances.
        between: :math:`\frac{1}{T} \sum (m_t - \bar m)^2`, the variance of the means.
    """

    count: int
    mean: Tensor
    within: Tensor
    between: Tensor

    @classmethod
    def of(cls, components: Gaussian) -> Mixture:
        """Moments over the leading axis, ``[samples, ...]``."""
        if len(components) == 1:
            only = components.mean[0]
            return cls(1, only, components.var[0], torch.zeros_like(only))
        mean = components.mean.mean(0)
        between = (components.mean - mean).square().mean(0)
        return cls(len(components), mean, components.var.mean(0), between)

    def owned(self) -> Mixture:
        """The same in tensors of its own, so that more can be taken in."""
        return replace(self, mean=self.mean.clone(), within=self.within.clone())

    def __iadd__(self, other: Mixture) -> Mixture:
        """Take in another set, in place; around the means, so that nothing cancels."""
        count = self.count + other.count
        b = other.count / count
        shift = other.mean - self.mean
        between = self.between.lerp_(other.between, b)
        between.addcmul_(shift, shift, value=b * (1 - b))
        mean, within = self.mean.lerp_(other.mean, b), self.within.lerp_(other.within, b)
        return Mixture(count, mean, within, between)

    @property
    def total(self) -> Gaussian:
        """Mean and total variance."""
        return Gaussian(self.mean, self.within + self.between)
