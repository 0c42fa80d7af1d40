"""Values that are still linear in the noise of the features: their variance is exact."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property

import torch
from torch import Tensor

from varigraph.moments.cotangents import row_slices
from varigraph.moments.gaussian import Gaussian, mapped_variance
from varigraph.moments.input_noise import InputNoise, Path, SummedLinks
from varigraph.sparse import Sparse


class Affine(Gaussian):
    r"""A value :math:`y_u = \sum_j \sum_w P^j_{uw} M_j x_w + b` that is linear in the features.

    Args:
        mean: its mean, ``[nodes, features]``.
        noise: the noise of the features.
        terms: the map :math:`M_j` of each path, ``[features, input features]``; None: the identity.
        extra: variance from sources other than the features, ``[nodes, features]``.
    """

    mean: Tensor
    noise: InputNoise
    terms: dict[Path, Tensor | None]
    extra: Tensor

    def __init__(
        self, mean: Tensor, noise: InputNoise, terms: dict[Path, Tensor | None], extra: Tensor
    ) -> None:
        self.__dict__.update(mean=mean, noise=noise, terms=terms, extra=extra)

    @classmethod
    def features(cls, mean: Tensor, noise: InputNoise) -> Affine:
        """The features themselves, with their noise."""
        nothing = torch.zeros_like(mean[:1, :1]).expand_as(mean)
        return cls(mean, noise, {(): None}, nothing)

    def mapped(self, weight: Tensor, mean: Tensor) -> Affine:
        """:math:`W y + b`, given its mean."""
        terms: dict[Path, Tensor | None] = {
            path: weight if term is None else weight @ term for path, term in self.terms.items()
        }
        return Affine(mean, self.noise, terms, mapped_variance(self.extra, weight.square()))

    def scaled(self, slope: Tensor, mean: Tensor) -> Affine:
        r""":math:`s \circ y + b` for one slope per feature, given its mean."""
        slope = slope.flatten().expand(self.mean.shape[1])
        terms: dict[Path, Tensor | None] = {
            path: torch.diag(slope) if term is None else slope[:, None] * term
            for path, term in self.terms.items()
        }
        return Affine(mean, self.noise, terms, self.extra * slope.square())

    def summed(self, links: SummedLinks, mean: Tensor, extra: Tensor) -> Affine:
        r""":math:`\sum_v S_{uv} y_v`, given its mean and the variance from other sources."""
        terms: dict[Path, Tensor | None] = {}
        for before, term in self.terms.items():
            for path in self.noise.paths(links, before):
                known = terms.get(path)
                terms[path] = term if known is None or term is None else known + term
        return Affine(mean, self.noise, terms, extra)

    def through(self, matrix: Sparse, mean: Tensor, extra: Tensor) -> Affine:
        r""":math:`\sum_v S_{uv} y_v` for a certain S, given its mean and the other variance."""
        number = self.noise._number(matrix)
        terms = {(number, *path): term for path, term in self.terms.items()}
        return Affine(mean, self.noise, terms, extra)

    def picked(self, columns: Tensor, mean: Tensor) -> Affine:
        """Some of its columns, given their mean."""
        terms: dict[Path, Tensor | None] = {path: m[columns] for path, m in self.maps.items()}
        return Affine(mean, self.noise, terms, self.extra[:, columns])

    def plus(self, other: Affine, alpha: float, mean: Tensor) -> Affine:
        r""":math:`y + \alpha z`, given its mean."""
        terms: dict[Path, Tensor | None] = dict(self.terms)
        for path, term in other.maps.items():
            terms[path] = alpha * term + (self.maps[path] if path in terms else 0)
        return Affine(mean, self.noise, terms, self.extra + alpha**2 * other.extra)

    def spread_by(self, added: Tensor) -> Affine:
        """The same value with more variance from other sources."""
        return Affine(self.mean, self.noise, self.terms, self.extra + added)

    @cached_property
    def from_features(self) -> Tensor:  # [nodes, features]
        """Variance due to the noise of the features, exact."""
        if self.noise.silent:
            return torch.zeros_like(self.mean[:1, :1]).expand_as(self.mean)
        return self._overlapped(_seen_singly)

    @property
    def covariance(self) -> Tensor:  # [nodes, features, features]
        """Covariance due to the noise of the features, exact."""
        return self.covariance_of(slice(None))

    def covariance_of(self, rows: Tensor | slice) -> Tensor:  # [rows, features, features]
        """The same for some of the nodes."""
        if self.noise.silent:
            mean = self.mean[rows]
            return torch.zeros_like(mean[:, :, None] * mean[:, None])
        return self._overlapped(_seen_together, rows)

    def _overlapped(
        self, seen: Callable[[Tensor, Tensor, Tensor], Tensor], rows: Tensor | slice = slice(None)
    ) -> Tensor:
        r""":math:`\sum_{jk} M_j\,\mathrm{diag}(f \circ o^{jk}_u)\,M_k'` with the overlaps o."""
        terms, total = self.maps, torch.zeros(())
        self.noise.compare(terms)
        for a, left in terms.items():
            for b, right in terms.items():
                arriving = self.noise.overlap(a, b)[rows]
                total = total + seen(left * self.noise.feature, right, arriving)
        return total

    @cached_property
    def maps(self) -> dict[Path, Tensor]:
        """The maps of all paths, the identity written out."""
        size = len(self.noise.feature)
        eye = torch.eye(size, dtype=self.mean.dtype, device=self.mean.device)
        return {path: eye if term is None else term for path, term in self.terms.items()}

    @property
    def var(self) -> Tensor:
        """Variance from all sources."""
        return self.extra if self.noise.silent else self.from_features + self.extra


def _seen_singly(left: Tensor, right: Tensor, noise: Tensor) -> Tensor:  # -> [nodes, features]
    r""":math:`\sum_k L_{ak} R_{ak} n_{uk}`.

    Args:
        left: L, ``[features, input features]``.
        right: R, of the same shape.
        noise: n of each node, one number, ``[nodes, 1]``, or one for every input feature.
    """
    product = left * right
    return noise @ (product.sum(1)[None] if noise.shape[1] == 1 else product.T)


def _seen_together(left: Tensor, right: Tensor, noise: Tensor) -> Tensor:
    r""":math:`\sum_k L_{ak} R_{bk} n_{uk}`, ``[nodes, features, features]``."""
    if noise.shape[1] == 1:
        return noise[:, :, None] * (left @ right.T)
    found = noise.new_empty(len(noise), len(left), len(right))
    for some in row_slices(len(noise), left.numel(), noise.device):
        found[some] = (left * noise[some, None]) @ right.T
    return found
