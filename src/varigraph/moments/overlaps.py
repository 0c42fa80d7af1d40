"""What two chains of sums have in common: the noise that reaches a node by both of them."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations_with_replacement
from typing import Any, Protocol, TypeVar

import numpy as np
import torch
from scipy.sparse import csr_array
from torch import Tensor

from varigraph.moments.pairs import row_blocks
from varigraph.moments.sparse import Sparse

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
        chains: the sums of each, the last one first.
        node: the weight n of each node.
        memory: bound in bytes on the walks that are expanded at once.

    Raises:
        TooLargeError: the walks of one node alone do not fit.
    """
    every = torch.arange(len(node), device=node.device)
    own = Sparse(every, every, torch.ones_like(node), (len(node), len(node)))
    matrices = {id(matrix): _reach_of(matrix) for chain in chains.values() for matrix in chain}
    found: dict[tuple[Name, Name], list[Tensor]] = {}
    for rows in row_blocks(list(chains.values()), every, 1, memory, at_once=AT_ONCE):
        known: dict[tuple[int, ...], Reach] = {(): _reach_of(own.picked(rows))}
        for chain in chains.values():
            _extend(known, tuple(map(id, chain)), matrices, rows)
        for a, b in combinations_with_replacement(chains, 2):
            one, two = (known[tuple(map(id, chains[name]))] for name in (a, b))
            found.setdefault((a, b), []).append(one.row_products(two, node))
    return {pair: torch.cat(blocks) for pair, blocks in found.items()}


def _extend(
    known: dict[tuple[int, ...], Reach],
    chain: tuple[int, ...],
    matrices: Mapping[int, Reach],
    rows: Tensor,
) -> None:
    """Add the product of a chain's sums for some rows, from those of shorter chains."""
    for length in range(1, len(chain) + 1):
        part, last = chain[:length], matrices[chain[length - 1]]
        if part not in known:
            known[part] = last.picked(rows) if length == 1 else known[part[:-1]].times(last)


def _reach_of(matrix: Sparse) -> Reach:
    return matrix if matrix.values.is_cuda else Compressed.of(matrix)
