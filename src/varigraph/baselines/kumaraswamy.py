"""The Kumaraswamy distribution: a beta distribution that can be drawn through."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

EULER = 0.57721566490153286


@dataclass(frozen=True, eq=False)
class Kumaraswamy:
    r"""Density :math:`a b\, \pi^{a - 1} (1 - \pi^a)^{b - 1}` on :math:`0 < \pi < 1`.

    Everywhere in this package :math:`\pi` is a chance to be kept, never to be dropped.

    Args:
        a: shape, positive.
        b: shape, positive, as many as ``a``.
    """

    a: Tensor
    b: Tensor

    def sample(self, generator: torch.Generator) -> Tensor:
        r""":math:`\pi = (1 - u^{1/b})^{1/a}` for uniform u: a draw that has gradients.

        Args:
            generator: source of the randomness, on the CPU.
        """
        u = torch.rand(self.a.shape, generator=generator, dtype=self.a.dtype).to(self.a.device)
        tiny = torch.finfo(u.dtype).eps
        inner = -torch.expm1(u.clamp(tiny, 1 - tiny).log() / self.b)  # 1 - u^(1/b), all digits kept
        return (inner.log() / self.a).exp()

    @property
    def mean(self) -> Tensor:
        r""":math:`b\, B(1 + 1/a, b)` with the beta function B."""
        one = 1 + 1 / self.a
        return self.b * (one.lgamma() + self.b.lgamma() - (one + self.b).lgamma()).exp()

    def divergence(self, prior: float) -> Tensor:
        r"""Divergence (Kullback-Leibler) from the prior :math:`\mathrm{Beta}(\alpha, 1)`.

        .. math::
            \left(1 - \frac{\alpha}{a}\right) \left(-\gamma - \psi(b) - \frac1b\right)
            + \log\frac{a b}{\alpha} - \frac{b - 1}{b}

        Args:
            prior: :math:`\alpha`; the prior's mean is :math:`\alpha / (1 + \alpha)`.
        """
        bend = -EULER - self.b.digamma() - 1 / self.b
        scale = (self.a * self.b).log() - math.log(prior)
        return (1 - prior / self.a) * bend + scale - (self.b - 1) / self.b
