"""Averaging over dropout masks, a few at a time."""

from __future__ import annotations

from dataclasses import dataclass

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
            return cls(1, only, components.var[0], only.new_zeros(()).expand_as(only))
        mean = components.mean.mean(0)
        between = (components.mean - mean).square().mean(0)
        return cls(len(components), mean, components.var.mean(0), between)

    def __add__(self, other: Mixture | None) -> Mixture:
        """Moments of both sets together; around their means, so that nothing cancels."""
        if other is None:
            return self
        count = self.count + other.count
        a, b = self.count / count, other.count / count
        shift = other.mean - self.mean
        between = self.between.lerp(other.between, b)
        return Mixture(
            count,
            self.mean.lerp(other.mean, b),
            self.within.lerp(other.within, b),
            between.addcmul_(shift, shift, value=a * b),
        )

    @property
    def total(self) -> Gaussian:
        """Mean and total variance."""
        return Gaussian(self.mean, self.within + self.between)
