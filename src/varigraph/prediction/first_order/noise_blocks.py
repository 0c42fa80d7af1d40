"""Noise of the features after one layer that is not linear in it: a block for every link.

Attention of the features stops being linear in them at once, and its cotangents would go on over
every walk of two steps with as many numbers as there are features. The noise has a low-rank root:
put into the layer first, it leaves a few columns for every link, and walks carry no more.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from varigraph.moments.affine import Affine
from varigraph.moments.cotangents import Cotangents
from varigraph.moments.gaussian import Gaussian
from varigraph.moments.tape import Entry
from varigraph.prediction.first_order.noise_root import NoiseRoot
from varigraph.sparse import Sparse

#: Random signs by which the noise that a root leaves out is measured.
SKETCH = 4
#: Share of the memory that blocks may take.
SHARE = 0.6


@dataclass(frozen=True, eq=False)
class _SameDegree:
    """Nodes with as many links as each other, whose blocks are one matrix each.

    Args:
        node: ``[n]``.
        entry: their links, ``[n, degree]``.
        kept: ``[n, features, degree * rank]``.
        rest: the same of a sketch of what the root leaves out.
    """

    node: Tensor
    entry: Tensor
    kept: Tensor
    rest: Tensor


@dataclass(frozen=True, eq=False)
class NoiseBlocks:
    r""":math:`y_v = \sum_w B_{vw} \xi_w`: how a value responds to the noise in a root's columns.

    Args:
        value: y.
        pattern: pairs v, w of nodes, sorted.
        by_degree: B of the nodes v, in groups of one degree.
        rank: columns of the root.
        node: variance of the noise at each node, ``[nodes]``.
    """

    value: Gaussian
    pattern: Sparse
    by_degree: list[_SameDegree]
    rank: int
    node: Tensor

    @property
    def bytes(self) -> int:
        """What they take."""
        return sum(group.kept.nbytes + group.rest.nbytes for group in self.by_degree)

    @classmethod
    def of(cls, entry: Entry, root: NoiseRoot, room: float) -> NoiseBlocks | None:
        """For a value made of the features alone; None where that is not known, or too large."""
        if isinstance(entry.value, Affine) or not entry.parents or not _plain_leaves(entry, root):
            return None
        # Operators go over the same links, but for those that look at a node alone.
        entries = max(0 if o.matrix is None else len(o.matrix.values) for _, o in entry.parents)
        entries += len(entry.value)
        columns = SKETCH + root.rank + 2 * max(SKETCH, root.rank)  # kept, and while it is made
        numbers = entries * entry.value.mean.shape[1] * columns
        if numbers * entry.value.mean.element_size() > SHARE * room:
            return None
        kept = _spread(entry, {p.number: root.parts[p.number, ()] for p, _ in entry.parents})
        if kept is None:
            return None
        pattern, groups = kept[0], list(_degrees(kept[0]))
        blocks = [_matrices(kept[1], links) for _, links in groups]
        rest = _spread(entry, _sketch(entry, root))
        assert rest is not None  # of the same operators
        others = [_matrices(rest[1], links) for _, links in groups]
        by_degree = [_SameDegree(*group, b, o)
                     for group, b, o in zip(groups, blocks, others, strict=True)]  # fmt: skip
        return cls(entry.value, pattern, by_degree, root.rank, root.noise.node[:, 0])


def _degrees(pattern: Sparse) -> Iterator[tuple[Tensor, Tensor]]:
    """Nodes of one degree, ``[n]``, and their links, ``[n, degree]``."""
    start, degrees = pattern.start, pattern.start.diff()
    for degree in degrees.unique().tolist():
        if degree > 0:
            node = (degrees == degree).nonzero().ravel()
            yield node, start[node][:, None] + torch.arange(degree, device=node.device)


def _matrices(blocks: Tensor, links: Tensor) -> Tensor:  # -> [n, features, degree * columns]
    """The blocks of each node beside each other."""
    return blocks[links].transpose(1, 2).flatten(2)


def _plain_leaves(entry: Entry, root: NoiseRoot) -> bool:
    """Whether a value is made of others that are linear in each node's own features."""
    return all(
        isinstance(parent, Affine)
        and set(parent.terms) == {()}
        and (parent.number, ()) in root.parts
        for parent, _ in entry.parents
    )


def _spread(entry: Entry, parts: Mapping[int, Tensor]) -> tuple[Sparse, Tensor] | None:
    """Blocks of all parents together, on the pairs of any of them."""
    nodes, rows = len(entry.parents[0][0]), len(entry.value)
    if any(len(parent) != nodes for parent, _ in entry.parents):
        return None
    every = torch.arange(rows, device=entry.value.mean.device)
    keys = [
        every * nodes + every if o.matrix is None else o.matrix.rows * nodes + o.matrix.columns
        for _, o in entry.parents
    ]
    reached, place = torch.unique(torch.cat(keys), return_inverse=True)
    total: Tensor | None = None
    for parent, operator in entry.parents:
        block = operator.of_root(parts[parent.number])
        if block is None:
            return None
        total = block.new_zeros(len(reached), *block.shape[1:]) if total is None else total
        total.index_add_(0, place[: len(block)], block)
        place = place[len(block) :]
    assert total is not None
    ones = torch.ones_like(reached, dtype=total.dtype)
    return Sparse(reached // nodes, reached % nodes, ones, (rows, nodes)), total


def _sketch(entry: Entry, root: NoiseRoot) -> dict[int, Tensor]:
    """What the root leaves out, in a few random mixtures of its columns that have its variance."""
    left_out = {parent.number: root.left_out[parent.number, ()] for parent, _ in entry.parents}
    any_part = next(iter(left_out.values()))
    generator = torch.Generator().manual_seed(0)
    signs = torch.randint(0, 2, (any_part.shape[1], SKETCH), generator=generator) * 2 - 1
    mixed = signs.to(any_part) / SKETCH**0.5
    return {number: part @ mixed for number, part in left_out.items()}


@dataclass(frozen=True, eq=False)
class _Walks:
    """Walks that go on from n nodes of one degree, each of which as many pairs have come to.

    Args:
        pair: ``[n, pairs]``.
        key: of the pairs that are reached, ``[n, pairs, degree]``.
        weight: variance of the noise there, ``[n, degree]``.
        kept: blocks, ``[n, features, degree * rank]``.
        rest: the same of what is left out.
    """

    pair: Tensor
    key: Tensor
    weight: Tensor
    kept: Tensor
    rest: Tensor

    def on(self, values: Tensor, blocks: Tensor) -> Tensor:  # [pairs, outputs, features]
        """Cotangents by blocks, ``[n, pairs, outputs, degree, columns]``."""
        left = values[self.pair].flatten(1, 2)
        count, ways, degree = self.key.shape
        return (left @ blocks).view(count, ways, values.shape[1], degree, -1)

    def energy(self, walks: Tensor) -> Tensor:  # -> [n, pairs, outputs]
        """Variance that each pair gets from walks, each of which is taken by itself."""
        return (walks.square().sum(-1) * self.weight[:, None, None]).sum(-1)


@dataclass(frozen=True, eq=False)
class Ended:
    """Cotangents of a block of outputs that have arrived at such a value.

    Args:
        at: the value.
        pairs: its cotangents.
    """

    at: NoiseBlocks
    pairs: Cotangents

    def to_noise(self) -> Cotangents:
        r""":math:`T_{uw} = \sum_v T_{uv} B_{vw}`, in the columns of the root."""
        outputs, rank = self.pairs.values.shape[1], self.at.rank
        found = [each.transpose(2, 3).reshape(-1, outputs * rank) for each in self._kept]
        values = torch.cat(found)
        keys = torch.cat([walks.key.ravel() for walks in self.walks])
        reached, place = torch.unique(keys, return_inverse=True)
        total = values.new_zeros(len(reached), outputs * rank).index_add_(0, place, values)
        nodes = self.at.pattern.shape[1]
        shaped = total.view(-1, outputs, rank)
        return Cotangents(reached // nodes, reached % nodes, shaped, nodes, self.pairs.rows)

    def covariances(self, noise: Cotangents) -> Tensor:  # -> [pairs, outputs, features]
        r""":math:`Cov(z_u, y_v) = \sum_w Cov(z_u, \xi_w) B_{vw}'`."""
        outputs, rank = noise.values.shape[1:]
        found = noise.values.new_zeros(len(self.pairs.row), outputs, self.at.value.mean.shape[1])
        for walks in self.walks:
            count, ways, degree = walks.key.shape
            moved = noise.values[torch.searchsorted(noise.keys, walks.key)]
            left = moved.transpose(2, 3).reshape(count, ways * outputs, degree * rank)
            found[walks.pair] = (left @ walks.kept.mT).view(count, ways, outputs, -1)
        return found

    @cached_property
    def by_walk(self) -> tuple[Tensor, Tensor]:  # [rows, outputs] each
        """Variance of the outputs from what the root keeps and leaves out, walk by walk."""
        values = self.pairs.values
        each = values.new_empty(2, *values.shape[:2])
        for walks, kept in zip(self.walks, self._kept, strict=True):
            for number, walked in enumerate((kept, walks.on(values, walks.rest))):
                each[number, walks.pair] = walks.energy(walked)
        return self.pairs.sum_rows(each[0]), self.pairs.sum_rows(each[1])

    @cached_property
    def _kept(self) -> list[Tensor]:
        """Cotangents at the end of all walks."""
        return [walks.on(self.pairs.values, walks.kept) for walks in self.walks]

    @cached_property
    def walks(self) -> list[_Walks]:
        """All walks, by the degrees of the nodes that they come through."""
        return list(self._by_degrees())

    def _by_degrees(self) -> Iterator[_Walks]:
        pairs, nodes = self.pairs, self.at.pattern.shape[1]
        order = pairs.column.argsort(stable=True)
        ways = torch.bincount(pairs.column, minlength=len(self.at.value))
        first = ways.cumsum(0) - ways
        for group in self.at.by_degree:
            here = ways[group.node]
            for count in here.unique().tolist():
                if count == 0:
                    continue
                some = (here == count).nonzero().ravel()
                start = first[group.node[some]][:, None]
                pair = order[start + torch.arange(count, device=order.device)]
                whole = len(some) == len(here)
                ends = self.at.pattern.columns[group.entry if whole else group.entry[some]]
                key = pairs.row[pair][:, :, None] * nodes + ends[:, None]
                both = (group.kept, group.rest)
                kept, rest = both if whole else (each[some] for each in both)
                yield _Walks(pair, key, self.at.node[ends], kept, rest)
