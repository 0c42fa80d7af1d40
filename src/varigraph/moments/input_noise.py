"""The noise of the features, and how much of it two ways through the graph have in common."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import combinations_with_replacement
from typing import Any, Protocol, TypeVar

import numpy as np
import torch
from scipy.sparse import csr_array
from torch import Tensor

from varigraph.errors import TooLargeError
from varigraph.moments.cotangents import Cotangents, row_blocks
from varigraph.sparse import Sparse

#: Bytes that walks may take at once: larger blocks are no faster.
AT_ONCE = {"cpu": 2**26, "cuda": 2**31}
Name = TypeVar("Name", bound=Hashable)


class Reach(Protocol):
    """How far some nodes reach along a chain: a matrix of its own."""

    def picked(self, rows: Tensor) -> Any:
        """Some of its rows."""

    def times(self, other: Any) -> Any:
        """The product with another matrix."""

    def row_products(self, other: Any, weight: Tensor) -> Tensor:
        r""":math:`\sum_w A_{uw} B_{uw} n_{wk}` for every row u and column k."""


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

    def row_products(
        self, other: Compressed, weight: Tensor
    ) -> Tensor:  # [columns, k] -> [rows, k]
        r""":math:`\sum_w A_{uw} B_{uw} n_{wk}` for every row u and column k."""
        product = self.matrix.power(2) if other is self else self.matrix.multiply(other.matrix)
        return torch.from_numpy(product @ weight.detach().numpy())


def overlaps(
    chains: Mapping[Name, Sequence[Sparse]], node: Tensor, memory: int
) -> dict[tuple[Name, Name], Tensor]:  # [nodes, k] -> [nodes, k] each
    r""":math:`\sum_w P^a_{uw} P^b_{uw} n_{wk}` of every two chains, P the product of its sums.

    Args:
        chains: the sums of each, the last one first; all lead to the same number of rows.
        node: the weights n of each node, one or several.
        memory: bound in bytes on the walks that are expanded at once.

    Raises:
        TooLargeError: the walks of one node alone do not fit.
    """
    count = max((chain[0].shape[0] for chain in chains.values() if chain), default=len(node))
    every = torch.arange(count, device=node.device)
    own = Sparse(every, every, torch.ones_like(every, dtype=node.dtype), (count, count))
    matrices = {matrix: _reach_of(matrix) for chain in chains.values() for matrix in chain}
    found: dict[tuple[Name, Name], list[Tensor]] = {}
    quick = AT_ONCE.get(node.device.type, AT_ONCE["cpu"])
    for rows in row_blocks(list(chains.values()), every, 1, memory, at_once=quick):
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
    r"""Noise of the features, :math:`V[x_{wk}] = n_{wk} f_k`, and the sums it has gone through.

    Where variances are a product, :math:`n_w f_k`, one number for each node does. Then a root of
    the noise is the same at every node, and may be narrow; else its columns are the features.

    Args:
        node: :math:`n`, ``[nodes, 1]``, or ``[nodes, features]`` where variances are no product.
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
        """Write variances as a product, where they are one."""
        parts = by_node_and_feature(var)
        if parts is None:
            return cls(var, torch.ones_like(var[0]), memory)
        node, feature = parts
        return cls(node[:, None], feature, memory)

    @property
    def by_feature(self) -> bool:
        """Whether every feature of every node has a variance of its own."""
        return self.node.shape[1] > 1

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
        values = torch.zeros_like(self.node[:, 0]).index_add_(0, links.target, more)
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

    def overlap(self, a: Path, b: Path) -> Tensor:  # [nodes, 1] or [nodes, features]
        r""":math:`\sum_w P^a_{uw} P^b_{uw} n_{wk}`, P the product of the sums on a path."""
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
            self._refuse_too_large(len(chains))
            self._overlaps.update(overlaps(chains, self.node, self.memory))

    @property
    def held(self) -> int:
        """Bytes of what is known about overlaps."""
        return sum(overlap.nbytes for overlap in self._overlaps.values())

    def _refuse_too_large(self, paths: int) -> None:
        """One number for each node always fits."""
        need = self.held + paths * (paths + 1) // 2 * self.node.nbytes
        if self.by_feature and need > self.memory:
            raise TooLargeError(
                "x_var differs by node and by feature: the variance that reaches each node needs "
                f"{need / 2**20:,.0f} MiB, more than {self.memory / 2**20:,.0f} MiB",
                'give more memory=, x_var as [nodes, 1] or [features], or take method="sampled"',
            )

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
