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
        """Moments over the leading axis, ``[samples, ...]``.

        Around the first of them, so that the rounding of a mean is not taken for variance.
        """
        first = components.mean[0]
        if len(components) == 1:
            return cls(1, first, components.var[0], torch.zeros_like(first))
        around = components.mean - first
        shift = around.mean(0)
        between = around.square_().mean(0).sub_(shift.square()).clamp_min_(0)
        return cls(len(components), first + shift, components.var.mean(0), between)

    @classmethod
    def of_one(cls, value: Tensor) -> Mixture:
        """A single value that is certain."""
        none = torch.zeros_like(value)
        return cls(1, value, none, none.clone())

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
