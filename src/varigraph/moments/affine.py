"""Values that are still linear in the noise of the features: their variance is exact."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import combinations_with_replacement
from typing import Any, Protocol, TypeVar

import numpy as np
import torch
from scipy.sparse import csr_array
from torch import Tensor

from varigraph.errors import MissingRuleError
from varigraph.moments.cotangents import Cotangents, row_blocks
from varigraph.moments.gaussian import Gaussian, mapped_variance
from varigraph.sparse import Sparse

#: Bytes that walks may take at once: larger blocks are no faster.
AT_ONCE = 2**26
Name = TypeVar("Name", bound=Hashable)


class Reach(Protocol):
    """How far some nodes reach along a chain: a matrix of its own."""

    def picked(self, rows: Tensor) -> Any:
        """Some of its rows."""

    def times(self, other: Any) -> Any:
        """The product with another matrix."""

    def row_products(self, other: Any, weight: Tensor) -> Tensor:
        r""":math:`\sum_w A_{uw} B_{uw} n_w` for every row u."""


@dataclass(frozen=True, eq=False)
class Compressed:
    """A sparse matrix on a processor, where torch never frees what its own product takes.

    Args:
        matrix: the same in compressed rows.
    """

    matrix: Any

    @classmethod
    def of(cls, matrix: Sparse) -> Compressed:
        """The same numbers with indices half as large, where these are large enough."""
        kind = np.int32 if max(len(matrix.values), *matrix.shape) < 2**31 else np.int64
        start, columns = (each.numpy().astype(kind) for each in (matrix.start, matrix.columns))
        return cls(csr_array((matrix.values.detach().numpy(), columns, start), matrix.shape))

    def picked(self, rows: Tensor) -> Compressed:  # [rows]
        """Some of its rows."""
        return Compressed(self.matrix[rows.numpy()])

    def times(self, other: Compressed) -> Compressed:
        """The product with another matrix."""
        return Compressed(self.matrix @ other.matrix)

    def row_products(self, other: Compressed, weight: Tensor) -> Tensor:  # [columns] -> [rows]
        r""":math:`\sum_w A_{uw} B_{uw} n_w` for every row u."""
        product = self.matrix.power(2) if other is self else self.matrix.multiply(other.matrix)
        return torch.from_numpy(product @ weight.detach().numpy())


def overlaps(
    chains: Mapping[Name, Sequence[Sparse]], node: Tensor, memory: int
) -> dict[tuple[Name, Name], Tensor]:  # [nodes] -> [nodes] each
    r""":math:`\sum_w P^a_{uw} P^b_{uw} n_w` for every two chains, P the product of a chain's sums.

    Args:
        chains: the sums of each, the last one first; all lead to the same number of rows.
        node: the weight n of each node.
        memory: bound in bytes on the walks that are expanded at once.

    Raises:
        TooLargeError: the walks of one node alone do not fit.
    """
    count = max((chain[0].shape[0] for chain in chains.values() if chain), default=len(node))
    every = torch.arange(count, device=node.device)
    own = Sparse(every, every, torch.ones_like(every, dtype=node.dtype), (count, count))
    matrices = {matrix: _reach_of(matrix) for chain in chains.values() for matrix in chain}
    found: dict[tuple[Name, Name], list[Tensor]] = {}
    for rows in row_blocks(list(chains.values()), every, 1, memory, at_once=AT_ONCE):
        known: dict[tuple[Sparse, ...], Reach] = {(): _reach_of(own.picked(rows))}
        for chain in chains.values():
            _extend(known, tuple(chain), matrices, rows)
        for a, b in combinations_with_replacement(chains, 2):
            one, two = (known[tuple(chains[name])] for name in (a, b))
            found.setdefault((a, b), []).append(one.row_products(two, node))
    return {pair: torch.cat(blocks) for pair, blocks in found.items()}


def _extend(
    known: dict[tuple[Sparse, ...], Reach],
    chain: tuple[Sparse, ...],
    matrices: Mapping[Sparse, Reach],
    rows: Tensor,
) -> None:
    """Add the product of a chain's sums for some rows, from those of shorter chains."""
    for length in range(1, len(chain) + 1):
        part, last = chain[:length], matrices[chain[length - 1]]
        if part not in known:
            known[part] = last.picked(rows) if length == 1 else known[part[:-1]].times(last)


def _reach_of(matrix: Sparse) -> Reach:
    return matrix if matrix.values.is_cuda else Compressed.of(matrix)


class SummedLinks(Protocol):
    """What is asked of the neighbours that a value is summed over."""

    @property
    def expected(self) -> Sparse:
        """Expected weights."""

    @property
    def target(self) -> Tensor:
        """Who receives each message."""

    def returned(self, inner: Any) -> Tensor:
        """What walks there and back over one link carry more than a product of means."""


#: Nodes whose variances are compared at a time.
ROWS_AT_ONCE = 2**12
#: Sums on the way from a value back to the features, by number.
Path = tuple[int, ...]


@dataclass(eq=False)
class InputNoise:
    r"""Noise of the features, :math:`V[x_{wk}] = n_w f_k`, and the sums it has gone through.

    Args:
        node: :math:`n`, ``[nodes]``.
        feature: :math:`f`, ``[features]``.
        memory: bound in bytes on what is expanded at once.
    """

    node: Tensor
    feature: Tensor
    memory: int
    sums: list[Sparse] = field(default_factory=list)
    _links: dict[int, SummedLinks] = field(default_factory=dict)
    _returns: dict[tuple[int, int], Sparse | None] = field(default_factory=dict)
    _overlaps: dict[tuple[Path, Path], Tensor] = field(default_factory=dict)

    @classmethod
    def of(cls, var: Tensor, memory: int) -> InputNoise:  # [nodes, features]
        """Write variances as a product; refuse where they differ by node AND by feature."""
        parts = by_node_and_feature(var)
        if parts is None:
            raise MissingRuleError(
                "x_var differs by node and by feature at once",
                'give it as [nodes, 1] or [features], or take method="sampled"',
            )
        return cls(*parts, memory)

    def paths(self, links: SummedLinks, before: Path) -> list[Path]:
        r"""The paths that go through one more sum.

        Besides the sum itself there is, where the one before it went over the same uncertain
        links, what walks i–j–i carry more than a product of means, as a matrix of its own:
        :math:`\sum_j p_{ij} (1 - p_{ij}) w_{ij} w_{ji}` on its diagonal.
        """
        found = [(self._number(links.expected, links), *before)]
        inner = self._links.get(before[0]) if before else None
        if inner is not None:
            key = (before[0], found[0][0])
            if key not in self._returns:
                self._returns[key] = self._return(links, inner)
            diagonal = self._returns[key]
            if diagonal is not None:
                found.append((self._number(diagonal), *before[1:]))
        return found

    def _return(self, links: SummedLinks, inner: SummedLinks) -> Sparse | None:
        more = links.returned(inner)
        if not bool(more.any()):
            return None
        nodes = torch.arange(len(self.node), device=self.node.device)
        values = torch.zeros_like(self.node).index_add_(0, links.target, more)
        return Sparse(nodes, nodes, values, (len(nodes), len(nodes)))

    def _number(self, matrix: Sparse, links: SummedLinks | None = None) -> int:
        for number, known in enumerate(self.sums):
            if known is matrix:
                return number
        self.sums.append(matrix)
        if links is not None:
            self._links[len(self.sums) - 1] = links
        return len(self.sums) - 1

    @cached_property
    def silent(self) -> bool:
        """Whether there is no noise at all."""
        return not bool(self.node.any() and self.feature.any())

    def overlap(self, a: Path, b: Path) -> Tensor:  # [nodes]
        r""":math:`\sum_w P^a_{uw} P^b_{uw} n_w`, where P is the product of the sums on a path."""
        key = (a, b) if a <= b else (b, a)
        if key not in self._overlaps:
            self.compare((a, b))
        return self._overlaps[key]

    def compare(self, paths: Iterable[Path]) -> None:
        """Find the overlaps of every two paths: together they take little longer than one."""
        pairs = combinations_with_replacement(sorted(set(paths)), 2)
        unknown = {path for pair in pairs if pair not in self._overlaps for path in pair}
        if unknown:
            chains = {path: [self.sums[number] for number in path] for path in sorted(unknown)}
            self._overlaps.update(overlaps(chains, self.node, self.memory))

    def spread(self, pairs: Cotangents, path: Path) -> Cotangents:
        """Cotangents of a value carried back along a path to the features."""
        for number in path:
            pairs = pairs.through(self.sums[number])
        return pairs


def by_node_and_feature(var: Tensor) -> tuple[Tensor, Tensor] | None:  # [nodes], [features]
    r""":math:`v_{wk} = n_w f_k`: variances as a product; None where they are none, to 1e-4."""
    if var.stride(0) == 0:  # one row for all nodes
        return torch.ones_like(var[:, 0]), var[0]
    if var.stride(1) == 0:
        return var[:, 0], torch.ones_like(var[0])
    row, column = divmod(int(var.argmax()), var.shape[1])
    largest = var[row, column].clamp_min(torch.finfo(var.dtype).tiny)
    node, feature = var[:, column] / largest, var[row]
    blocks = zip(node.split(ROWS_AT_ONCE), var.split(ROWS_AT_ONCE), strict=True)
    is_product = all(torch.allclose(n[:, None] * feature, v, rtol=1e-4, atol=0) for n, v in blocks)
    return (node, feature) if is_product else None


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
        return self._overlapped(lambda left, right: (left * self.noise.feature * right).sum(1))

    @property
    def covariance(self) -> Tensor:  # [nodes, features, features]
        """Covariance due to the noise of the features, exact."""
        return self.covariance_of(slice(None))

    def covariance_of(self, rows: Tensor | slice) -> Tensor:  # [rows, features, features]
        """The same for some of the nodes."""
        if self.noise.silent:
            mean = self.mean[rows]
            return torch.zeros_like(mean[:, :, None] * mean[:, None])
        return self._overlapped(lambda left, right: (left * self.noise.feature) @ right.T, rows)

    def _overlapped(
        self, product: Callable[[Tensor, Tensor], Tensor], rows: Tensor | slice = slice(None)
    ) -> Tensor:
        r""":math:`\sum_{jk} o^{jk}_u\, m(M_j, M_k)`, with the overlaps o of two paths."""
        terms, total = self.maps, torch.zeros(())
        self.noise.compare(terms)
        for a, left in terms.items():
            for b, right in terms.items():
                share = product(left, right)
                overlap = self.noise.overlap(a, b)[rows]
                total = total + overlap.view(-1, *[1] * share.dim()) * share
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
