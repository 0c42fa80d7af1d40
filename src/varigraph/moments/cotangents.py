"""Cotangents of a block of outputs, pair by pair, and work in pieces that fit a cache."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from varigraph.errors import TooLargeError
from varigraph.sparse import Sparse

CPU = torch.device("cpu")

#: Numbers that are held at once: some megabytes on a processor, on a GPU what keeps it busy.
AT_ONCE = {"cpu": 2**20, "cuda": 2**24}


def at_once(device: torch.device) -> int:
    """Numbers that are held at once on a device."""
    return AT_ONCE.get(device.type, AT_ONCE["cpu"])


def row_slices(nodes: int, numbers: int, device: torch.device = CPU) -> Iterator[slice]:
    """Slices of the nodes such that what is computed at once fits in a processor's cache.

    Args:
        nodes: how many there are.
        numbers: how many numbers each of them needs.
        device: where they are computed.
    """
    step = max(1, at_once(device) // numbers)
    return (slice(first, first + step) for first in range(0, nodes, step))


def blocks_within(rows: Tensor, cost: Tensor, memory: float) -> Iterator[Tensor]:
    """Blocks of rows that together cost no more than a bound; what costs more alone is alone.

    Args:
        rows: the output nodes.
        cost: bytes for each of them, ``[rows]``.
        memory: the bound.
    """
    total, first = cost.double().cumsum(0).cpu(), 0
    while first < len(rows):
        spent = float(total[first - 1]) if first else 0.0
        end = int(torch.searchsorted(total, spent + memory, right=True))
        end = max(end, first + 1)
        yield rows[first:end]
        first = end


@dataclass(frozen=True, eq=False)
class Cotangents:
    """:math:`T_{uv} = dy_u / dh_v` for a block of outputs u, zero where no pair is listed.

    Args:
        row: number of the output node within its block, sorted, ``[pairs]``.
        column: the node v, sorted within each row, ``[pairs]``.
        values: ``[pairs, outputs, features]``.
        nodes: number of nodes v.
        rows: number of output nodes in the block.
    """

    row: Tensor
    column: Tensor
    values: Tensor
    nodes: int
    rows: int

    @classmethod
    def identity(cls, rows: Tensor, nodes: int, like: Tensor, size: int = 1) -> Cotangents:
        """Each output node and itself, with the identity matrix."""
        block = torch.arange(len(rows), device=rows.device)
        eye = torch.eye(size, dtype=like.dtype, device=like.device)
        return cls(block, rows, eye.expand(len(rows), size, size), nodes, len(rows))

    @cached_property
    def keys(self) -> Tensor:  # [pairs]
        """A number for every pair, ascending."""
        return self.row * self.nodes + self.column

    @property
    def pattern(self) -> Cotangents:
        """The pairs alone, without cotangents."""
        return self.with_values(self.values.new_empty(len(self.row), 0, 0))

    def with_values(self, values: Tensor) -> Cotangents:
        """The same pairs with other cotangents."""
        same = Cotangents(self.row, self.column, values, self.nodes, self.rows)
        if "keys" in self.__dict__:
            same.__dict__["keys"] = self.keys
        return same

    def through(self, matrix: Sparse) -> Cotangents:
        r"""Back through :math:`y = S x`: :math:`T'_{uw} = \sum_v T_{uv} S_{vw}`."""
        asked, entry = matrix.walks(self.column)
        keys = self.row[asked] * matrix.shape[1] + matrix.columns[entry]
        keys, order = keys.sort(stable=True)
        reached, walk_to = torch.unique_consecutive(keys, return_inverse=True)
        collect = Sparse(
            walk_to,
            asked[order],
            matrix.values[entry[order]].to(self.values.dtype),
            (len(reached), len(self.row)),
        )
        values = (collect @ self.values.flatten(1)).view(len(reached), *self.values.shape[1:])
        nodes = matrix.shape[1]
        return Cotangents(reached // nodes, reached % nodes, values, nodes, self.rows)

    def gathered(self, matrix: Sparse, source: Cotangents) -> Cotangents:
        r"""Forward through :math:`y = S x` onto these pairs: :math:`V_{uv} = \sum_w S_{vw} V_{uw}`.

        ``source`` must hold every pair that these lead to, as ``through(matrix)`` does.
        """
        asked, entry = matrix.walks(self.column)
        keys = self.row[asked] * matrix.shape[1] + matrix.columns[entry]
        collect = Sparse(
            asked,
            torch.searchsorted(source.keys, keys),
            matrix.values[entry].to(source.values.dtype),
            (len(self.row), len(source.row)),
        )
        values = (collect @ source.values.flatten(1)).view(-1, *source.values.shape[1:])
        return self.with_values(values)

    def through_heads(self, matrix: Sparse, weight: Tensor) -> Cotangents:  # [entries, heads]
        r"""Back through :math:`y_h = S_h x_h`, a matrix with other weights for each head."""
        asked, entry = matrix.walks(self.column)
        keys = self.row[asked] * matrix.shape[1] + matrix.columns[entry]
        keys, order = keys.sort(stable=True)
        reached, walk_to = torch.unique_consecutive(keys, return_inverse=True)
        shape = len(reached), len(self.row)
        collect = Sparse(walk_to, asked[order], keys.new_empty(0, dtype=weight.dtype), shape)
        values = collect.by_heads(weight[entry[order]].to(self.values), self.values)
        nodes = matrix.shape[1]
        return Cotangents(reached // nodes, reached % nodes, values, nodes, self.rows)

    def gathered_heads(self, matrix: Sparse, weight: Tensor, source: Cotangents) -> Cotangents:
        r"""Forward through :math:`y_h = S_h x_h` onto these pairs."""
        asked, entry = matrix.walks(self.column)
        keys = self.row[asked] * matrix.shape[1] + matrix.columns[entry]
        place = torch.searchsorted(source.keys, keys)
        shape = len(self.row), len(source.row)
        collect = Sparse(asked, place, keys.new_empty(0, dtype=weight.dtype), shape)
        return self.with_values(collect.by_heads(weight[entry].to(source.values), source.values))

    def at(self, other: Cotangents) -> Cotangents:
        """The cotangents of these at other pairs, all of which must be among them."""
        if self.row is other.row and self.column is other.column:
            return self
        return other.with_values(self.values[torch.searchsorted(self.keys, other.keys)])

    def on(self, other: Cotangents) -> Cotangents:
        """The same at other pairs, which hold all of these: zero where there was none."""
        if len(self.row) == len(other.row):
            return self
        return self._on(other.keys)

    def __add__(self, other: Cotangents) -> Cotangents:
        """Cotangents that meet at the same pair add up."""
        large, small = (self, other) if len(self.row) >= len(other.row) else (other, self)
        place = torch.searchsorted(large.keys, small.keys).clamp_max(len(large.row) - 1)
        if torch.equal(large.keys[place], small.keys):  # as a rule: farther walks reach more
            return large.with_values(large.values.index_add(0, place, small.values))
        mine, theirs = self.aligned(other)
        return mine.with_values(mine.values + theirs.values)

    def aligned(self, other: Cotangents) -> tuple[Cotangents, Cotangents]:
        """Both on the pairs of either."""
        keys = torch.unique(torch.cat([self.keys, other.keys]))
        return self._on(keys), other._on(keys)

    def _on(self, keys: Tensor) -> Cotangents:
        values = self.values.new_zeros(len(keys), *self.values.shape[1:])
        values[torch.searchsorted(keys, self.keys)] = self.values
        return Cotangents(keys // self.nodes, keys % self.nodes, values, self.nodes, self.rows)

    def sum_rows(self, per_pair: Tensor) -> Tensor:  # [pairs, ...] -> [rows, ...]
        """Sum over the pairs of each output node."""
        zeros = per_pair.new_zeros(self.rows, *per_pair.shape[1:])
        return zeros.index_add_(0, self.row, per_pair)

    def gram(self, weight: Tensor | None = None) -> Tensor:  # -> [rows, outputs, outputs]
        r""":math:`\sum_v T_{uv}\,\mathrm{diag}(n_v)\,T_{uv}'`, n ``[nodes, 1]`` or by feature."""
        left = self.values if weight is None else self.values * weight[self.column][:, None]
        return self.sum_rows(left @ self.values.mT)


def row_blocks(
    chains: Sequence[Sequence[Sparse]],
    rows: Tensor,
    numbers: int,
    memory: int,
    *,
    at_once: int | None = None,
) -> Iterator[Tensor]:
    """Blocks of output nodes whose walks fit in memory.

    Args:
        chains: the sums that pairs go through, the last one first, for each way back.
        rows: the output nodes.
        numbers: how many numbers each pair holds.
        memory: bound in bytes.
        at_once: bytes for a block of several nodes, where that is less.

    Raises:
        TooLargeError: the walks of one node alone do not fit.
    """
    walks = 1 + sum((_walks(chain)[rows] for chain in chains if chain), torch.zeros(()))
    walks = walks.expand(len(rows)).double()
    reached = walks.clamp_max(float(max((m.shape[1] for c in chains for m in c), default=1)))
    # Walks are held as indices; values, before, after and in between, for every pair reached.
    cost = 6 * 8 * walks + 3 * 4 * numbers * reached
    if float(cost.max()) > memory:
        worst = int(cost.argmax())
        raise TooLargeError(
            f"node {int(rows[worst])} is reached by {int(walks[worst]):,} walks, which need "
            f"{float(cost[worst]) / 2**30:.1f} GiB at once",
            'give more memory=, or take method="sampled"',
        )
    return blocks_within(rows, cost, memory if at_once is None else min(memory, at_once))


def _walks(chain: Sequence[Sparse]) -> Tensor:  # [nodes]
    """Number of walks from each node along the chain, all lengths together."""
    kind: dict[str, Any] = {"dtype": torch.float64, "device": chain[0].values.device}
    total = torch.zeros(chain[0].shape[0], **kind)
    for length in range(1, len(chain) + 1):
        ahead = torch.ones(chain[length - 1].shape[1], **kind)
        for matrix in reversed(chain[:length]):
            steps = torch.zeros(matrix.shape[0], **kind)
            ahead = steps.index_add_(0, matrix.rows, ahead[matrix.columns])
        total = total + ahead
    return total
