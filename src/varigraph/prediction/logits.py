"""Logits whose classes move together, and where their variance comes from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from varigraph.moments import Gaussian
from varigraph.prediction.sources.source import INTERACTIONS

#: Relative variance that is added to make a covariance definite.
RIDGE = 1e-6
#: Largest correlation that is looked at. There is none beyond 1, but what is left of a difference
#: of covariances may have any.
MOST = 1e3


@dataclass(frozen=True, eq=False)
class Bent:
    r"""What the logits do beyond a linear response to the noise of a source.

    .. math::
        z_a = \mu_a + (L u)_a + \tfrac12 \textstyle\sum_{bc} \tilde K_{abc} (u_b u_c - \delta_{bc})

    Args:
        white: :math:`\tilde K` for :math:`b \le c`, ``[nodes, classes, pairs of classes]``.
        covariance: what that adds, :math:`\frac12 \sum_{bc} \tilde K_{abc} \tilde K_{dbc}`.
        part: the source, whose share that covariance is in.
    """

    white: Tensor
    covariance: Tensor
    part: str

    @classmethod
    def of(cls, straight: Tensor, bend: Tensor, *, part: str) -> Bent:
        """From the covariance :math:`L L'` and K, ``[nodes, classes, classes, classes]``."""
        whitening = _whitening(straight)[:, None]
        whole = whitening @ bend @ whitening.mT
        b, c = class_pairs(whole)
        white = whole[:, :, b, c]
        weight = 1 - (b == c).to(white) / 2  # two different classes stand for both of their orders
        return cls(white, (white * weight) @ white.mT, part)

    def moved(self, u: Tensor) -> Tensor:  # [classes, points] -> [nodes, classes, points]
        """The second order at each point."""
        b, c = class_pairs(self.covariance)
        same = (b == c).to(u)[:, None]
        moved: Tensor = self.white @ ((1 - same / 2) * (u[b] * u[c] - same))
        return moved

    def rows(self, index: slice | Tensor) -> Bent:
        """The same for some of the nodes."""
        return Bent(self.white[index], self.covariance[index], self.part)


def class_pairs(matrix: Tensor) -> Tensor:  # [..., classes, classes] -> [2, pairs of classes]
    """Every pair of classes once, each class with itself too."""
    classes = matrix.shape[-1]
    return torch.triu_indices(classes, classes, device=matrix.device)


def _whitening(covariance: Tensor) -> Tensor:  # [nodes, classes, classes]
    r"""W with :math:`W \Sigma W' = 1` where the logits move, and nearly 0 where they do not.

    With the root L of :math:`\Sigma + \delta` it is :math:`(1 - \delta L^{-1} L^{-1\prime})
    L^{-1}`: a direction of variance :math:`\lambda` is multiplied by :math:`\lambda / (\lambda +
    \delta)^{3/2}`. By :math:`L^{-1}` alone, logits that follow from each other would have their
    rounding blown up.
    """
    ridge = torch.finfo(covariance.dtype).eps ** 0.7  # far above rounding, and below what counts
    root = root_of(covariance, ridge)
    eye = torch.eye(root.shape[-1], dtype=root.dtype, device=root.device)
    inverse = torch.linalg.solve_triangular(root, eye, upper=False)
    in_units = inverse * _sizes(covariance).mT
    whitening: Tensor = inverse - ridge * in_units @ (in_units.mT @ inverse)
    return whitening


def root_of(covariance: Tensor, ridge: float = RIDGE) -> Tensor:  # [nodes, classes, classes]
    """The lower root of each covariance, also where that is singular or slightly indefinite.

    Unlike eigenvectors it is unique and steady, so that the points of an integral fall on the same
    places whatever the machine. The ridge, in units of each class's own variance, makes it so.
    """
    size = _sizes(covariance)  # all in units of its own: a class that hardly moves counts too
    units = (covariance / size / size.mT).clamp(-MOST, MOST)
    eye = torch.eye(units.shape[-1], dtype=units.dtype, device=units.device)
    root: Tensor
    root, failed = torch.linalg.cholesky_ex(units + ridge * eye)
    lost = ~units.isfinite().flatten(1).all(1)
    root[lost] = torch.nan  # the answer is refused in the end
    bad = (failed > 0) & ~lost
    if bool(bad.any()):
        energy, vectors = torch.linalg.eigh(units[bad].double())  # in which it converges
        turned = (energy.clamp_min(0) + ridge).sqrt()[..., None] * vectors.mT
        upper = torch.linalg.qr(turned).R  # turned' turned = upper' upper, and no step can fail
        root[bad] = (upper * upper.diagonal(dim1=1, dim2=2).sign()[..., None]).mT.to(root)
    return size * root


def _sizes(covariance: Tensor) -> Tensor:  # [nodes, classes, classes] -> [nodes, classes, 1]
    """Standard deviations; a little more than nothing where there is none."""
    var = covariance.diagonal(dim1=1, dim2=2).abs()
    return var.clamp_min(torch.finfo(var.dtype).tiny).sqrt()[..., None]


@dataclass(frozen=True, eq=False)
class CorrelatedLogits:
    """Mean and covariance of each node's logits.

    Args:
        mean: ``[nodes, classes]``.
        shares: covariance due to each part, ``[nodes, classes, classes]``.
        bent: second order in the noise of a source, whose covariance is part of its share; None
            where the logits are linear in all noise.
    """

    mean: Tensor
    shares: Mapping[str, Tensor]
    bent: Bent | None = None

    def rows(self, index: slice | Tensor) -> CorrelatedLogits:
        """The same for some of the nodes."""
        bent = None if self.bent is None else self.bent.rows(index)
        shares = {part: share[index] for part, share in self.shares.items()}
        return CorrelatedLogits(self.mean[index], shares, bent)

    def put(self, place: Tensor, other: CorrelatedLogits) -> None:
        """Write those of other nodes, which have the same parts, over those at some places."""
        self.mean[place] = other.mean
        for part, share in self.shares.items():
            share[place] = other.shares[part]
        if self.bent is not None and other.bent is not None:
            self.bent.white[place] = other.bent.white
            self.bent.covariance[place] = other.bent.covariance

    @property
    def covariance(self) -> Tensor:  # [nodes, classes, classes]
        """Covariance from all sources together."""
        return torch.stack(list(self.shares.values())).sum(0)

    @property
    def marginal(self) -> Gaussian:  # [nodes, classes]
        """Mean and variance of each logit by itself."""
        return Gaussian(self.mean, diagonal(self.covariance))


def diagonal(covariance: Tensor) -> Tensor:  # [nodes, classes, classes] -> [nodes, classes]
    """The variances in covariances."""
    return covariance.diagonal(dim1=1, dim2=2).clamp_min(0)


def active_parts(logits: CorrelatedLogits) -> list[str]:
    """The parts that cause any variance at all."""
    return [part for part, share in logits.shares.items() if bool(share.any())]


def divided(logits: CorrelatedLogits) -> dict[str, Tensor]:  # [nodes, classes] each
    """The variance of the logits themselves, source by source; the parts add up to it."""
    parts = {part: share.diagonal(dim1=1, dim2=2) for part, share in logits.shares.items()}
    interactions = parts.pop(INTERACTIONS)
    below = torch.stack(list(parts.values())).clamp_max(0).sum(0)  # a share that rounding has left
    fitting = with_interactions(parts, diagonal(logits.covariance))
    # As total less parts it would have lost its digits.
    return {**fitting, INTERACTIONS: (interactions + below).clamp_min(0)}


def with_interactions(found: Mapping[str, Tensor], total: Tensor) -> dict[str, Tensor]:
    """The parts of the sources, together no more than the total; interactions have the rest."""
    parts = {source: part.clamp_min(0) for source, part in found.items()}
    whole = torch.stack(list(parts.values())).sum(0)
    fitting = torch.where(whole > total, total / whole, 1)
    parts = {source: part * fitting for source, part in parts.items()}
    return {**parts, INTERACTIONS: (total - whole).clamp_min(0)}
