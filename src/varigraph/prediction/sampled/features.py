"""Noisy features, in full or only in the directions that the network looks at."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Protocol

import torch
from torch import Tensor

from varigraph.moments import Gaussian
from varigraph.moments.gaussian import unexpanded
from varigraph.prediction.sampled.draws import normals

#: How much narrower the small space must be to be worth the change of basis.
NARROWER = 2
#: Nodes whose variances are compared at a time.
ROWS_AT_ONCE = 2**12


class Features(Protocol):
    """What takes the place of the features in a run."""

    @property
    def mean(self) -> Tensor:
        """Features without noise."""

    @property
    def maps(self) -> Mapping[int, Tensor]:
        """Matrices to use in the place of the network's own, by the ids of those."""

    @property
    def bytes(self) -> int:
        """Memory of a draw, and of what is held to make it."""

    def draw(self, sample: int, *, seed: int) -> Tensor:
        """Features with a draw of noise."""


@dataclass(frozen=True, eq=False)
class FullFeatures:
    r"""All features: :math:`x + \sigma \circ z`, ``[nodes, features]``."""

    x: Gaussian
    maps: Mapping[int, Tensor] = field(default_factory=dict)

    @property
    def mean(self) -> Tensor:
        """Features without noise."""
        return self.x.mean

    @property
    def bytes(self) -> int:
        """Memory of a draw, and of what is held to make it."""
        return self.mean.nbytes + self._std.nbytes

    def draw(self, sample: int, *, seed: int) -> Tensor:
        """Features with a draw of noise."""
        noise = normals(tuple(self.mean.shape), sample, seed=seed).to(self.mean)
        return torch.addcmul(self.mean, noise, self._std, out=noise)

    @cached_property
    def _std(self) -> Tensor:  # [nodes or 1, features or 1]
        return unexpanded(self.x.var).sqrt()


@dataclass(frozen=True, eq=False)
class SmallFeatures:
    r"""Features in an orthonormal basis Q of what the first matrices W can see.

    .. math::
        W x = (W Q) (Q' x) \qquad
        Q' x \sim N\left(Q' \mu,\ \sigma_u^2\, Q' \mathrm{diag}(\sigma_f^2) Q\right)

    The same distribution of everything behind W, from as many normal numbers as Q has columns.

    Args:
        full: the features themselves.
        basis: Q, ``[features, directions]``.
        maps: W Q for each W, by the id of W.
        mean: :math:`Q' \mu`, ``[nodes, directions]``.
    """

    full: FullFeatures
    basis: Tensor
    maps: Mapping[int, Tensor]
    mean: Tensor
    _noise: tuple[Tensor, Tensor] | None

    @classmethod
    def of(cls, full: FullFeatures, matrices: Mapping[int, tuple[Tensor, bool]]) -> SmallFeatures:
        """The small space of these matrices, each ``[out, features]`` or transposed.

        Args:
            full: the features.
            matrices: by their ids; the flag is True for ``[out, features]``.
        """
        as_rows = [w if rows else w.T for w, rows in matrices.values()]
        basis = torch.linalg.qr(torch.cat(as_rows).double().T)[0]
        maps = {
            key: (w.double() @ basis if rows else basis.T @ w.double()).to(w)
            for key, (w, rows) in matrices.items()
        }
        narrow = basis.to(full.mean)
        return cls(full, narrow, maps, full.mean @ narrow, _small_noise(full.x.var, basis))

    @property
    def bytes(self) -> int:
        """Memory of a draw, and of what is held to make it."""
        return 2 * self.mean.nbytes + (self.full.bytes if self._noise is None else 0)

    def draw(self, sample: int, *, seed: int) -> Tensor:  # -> [nodes, directions]
        """Features with a draw of noise."""
        if self._noise is None:  # differs by node and by feature: no root serves all nodes
            return self.full.draw(sample, seed=seed) @ self.basis
        std, root = self._noise
        noise = normals(tuple(self.mean.shape), sample, seed=seed).to(self.mean)
        noise = noise if root.dim() == 0 else noise @ root
        return torch.addcmul(self.mean, noise, std, out=noise)


def worthwhile(matrices: Mapping[int, tuple[Tensor, bool]], width: int) -> bool:
    """Whether the matrices together look at far fewer directions than there are features."""
    seen = sum(w.numel() // width for w, _ in matrices.values())
    return 0 < NARROWER * seen <= width


def _small_noise(var: Tensor, basis: Tensor) -> tuple[Tensor, Tensor] | None:
    """Standard deviation by node, and a root of the covariance; a plain 1 stands for no root."""
    parts = _by_node_and_feature(var)
    if parts is None:
        return None
    node, feature = parts
    if bool((feature == feature[0]).all()):
        return (node * feature[0]).sqrt(), node.new_ones(())
    values, vectors = torch.linalg.eigh(basis.T @ (feature.double()[:, None] * basis))
    root = vectors * values.clamp_min(0).sqrt()
    return node.sqrt(), root.T.to(var)


def _by_node_and_feature(var: Tensor) -> tuple[Tensor, Tensor] | None:
    """Variances as a product of one by node, ``[nodes, 1]``, and one by feature."""
    if var.stride(0) == 0:  # one row for all nodes
        return var.new_ones(1, 1), var[0]
    if var.stride(1) == 0:
        return var[:, :1], var.new_ones(var.shape[1])
    row = var[var.sum(1).argmax()]
    node = var.sum(1, keepdim=True) / row.sum().clamp_min(torch.finfo(var.dtype).tiny)
    blocks = zip(node.split(ROWS_AT_ONCE), var.split(ROWS_AT_ONCE), strict=True)
    same = all(torch.allclose(some * row, each, rtol=1e-5, atol=0) for some, each in blocks)
    return (node, row) if same else None
