"""Noise of the features after one layer that is not linear in it: a block for every link.

Attention of the features stops being linear in them at once, and its cotangents would go on over
every walk of two steps with as many numbers as there are features. The noise has a low-rank root:
put into the layer first, it leaves a few columns for every link, and walks carry no more. What
each node then does by itself is done to the columns too, down to where values are narrowest.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from varigraph.moments.affine import Affine
from varigraph.moments.cotangents import Cotangents, row_slices
from varigraph.moments.gaussian import Gaussian
from varigraph.moments.tape import Entry, Tape
from varigraph.prediction.first_order.noise_root import NoiseRoot
from varigraph.sparse import Sparse

#: Random signs by which the noise that a root leaves out is measured.
SKETCH = 4
#: Share of the memory that blocks may take.
SHARE = 0.6


@dataclass(frozen=True, eq=False)
class NoiseBlocks:
    r""":math:`y_v = \sum_w B_{vw} \xi_w`: how a value responds to the noise in a root's columns.

    Args:
        value: y.
        pattern: pairs v, w of nodes, sorted.
        kept: B' of the pairs, ``[pairs, rank, features]``.
        narrow: values through which all goes that comes of y, each made of it node by node.
        of_narrow: B' of these, side by side, ``[pairs, rank, their features]``.
        rest: the same of a sketch of what the root leaves out.
        node: variance of the noise at each node, ``[nodes]``.
    """

    value: Gaussian
    pattern: Sparse
    kept: Tensor
    narrow: Sequence[Gaussian]
    of_narrow: Tensor
    rest: Tensor
    node: Tensor

    @property
    def bytes(self) -> int:
        """What they take."""
        return self.kept.nbytes + self.of_narrow.nbytes + self.rest.nbytes

    @classmethod
    def of(cls, entry: Entry, root: NoiseRoot, room: float, tape: Tape) -> NoiseBlocks | None:
        """For a value made of the features alone; None where that is not known, or too large."""
        if isinstance(entry.value, Affine) or not entry.parents or not _plain_leaves(entry, root):
            return None
        # Operators go over the same links, but for those that look at a node alone.
        entries = max(0 if o.matrix is None else len(o.matrix.values) for _, o in entry.parents)
        entries += len(entry.value)
        columns = SKETCH + 2 * root.rank + 2 * max(SKETCH, root.rank)  # kept, and while it is made
        numbers = entries * entry.value.mean.shape[1] * columns
        if numbers * entry.value.mean.element_size() > SHARE * room:
            return None
        kept = _spread(entry, {p.number: root.parts[p.number, ()] for p, _ in entry.parents})
        if kept is None:
            return None
        rest = _spread(entry, _sketch(entry, root))
        assert rest is not None  # of the same operators
        narrow = narrowest(tape, entry.value)
        pattern, blocks = kept
        of_narrow, of_rest = (
            _carried(tape, entry.value, narrow, pattern, found) for found in (blocks, rest[1])
        )
        return cls(entry.value, pattern, blocks, narrow, of_narrow, of_rest, root.noise.node[:, 0])

    def moved(self, noise: Tensor) -> dict[int, Tensor]:  # [nodes, draws, rank]
        """How far noise in the columns of the root moves the narrow values, by their numbers."""
        draws, width = noise.shape[1], self.of_narrow.shape[2]
        found = noise.new_zeros(self.pattern.shape[0], draws, width)
        for some in row_slices(len(self.kept), draws * width + self.of_narrow[:1].numel()):
            part = noise[self.pattern.columns[some]] @ self.of_narrow[some]
            found.index_add_(0, self.pattern.rows[some], part)
        parts = found.split([value.mean.shape[1] for value in self.narrow], 2)
        return {value.number: x for value, x in zip(self.narrow, parts, strict=True)}

    @cached_property
    def by_degree(self) -> list[tuple[Tensor, Tensor]]:
        """Nodes of one degree, ``[n]``, and their links, ``[n, degree]``."""
        start, degrees, found = self.pattern.start, self.pattern.start.diff(), []
        for degree in degrees.unique().tolist():
            node = (degrees == degree).nonzero().ravel()
            links = torch.arange(degree, device=node.device)
            found.append((node, start[node][:, None] + links))
        return found


def narrowest(tape: Tape, value: Gaussian) -> tuple[Gaussian, ...]:
    """Values with the fewest numbers through which all goes that comes of one, node by node."""
    children: dict[int, list[Entry]] = {}
    for entry in tape.entries:
        for parent, _ in entry.parents:
            children.setdefault(parent.number, []).append(entry)
    now: tuple[Gaussian, ...] = (value,)
    best = now
    while (further := _a_step_further(now, children)) is not None:
        now = further
        best = min(best, now, key=lambda values: sum(each.mean.shape[1] for each in values))
    return best


def _a_step_further(
    values: tuple[Gaussian, ...], children: Mapping[int, list[Entry]]
) -> tuple[Gaussian, ...] | None:
    """One of them replaced by all that is made of it; None where other values have a part in it."""
    for place, value in enumerate(values):
        made = children.get(value.number, [])
        if made and all(len(e.parents) == 1 and e.parents[0][1].local for e in made):
            return (*values[:place], *(entry.value for entry in made), *values[place + 1 :])
    return None


def _carried(
    tape: Tape, start: Gaussian, narrow: Sequence[Gaussian], pattern: Sparse, blocks: Tensor
) -> Tensor:  # [pairs, columns, features] -> [pairs, columns, features of all narrow values]
    """Blocks of the narrow values from those of the value that they are made of."""
    if narrow[0] is start:
        return blocks
    made = {entry.value.number: entry for entry in tape.entries}
    width = sum(value.mean.shape[1] for value in narrow)
    found = blocks.new_empty(*blocks.shape[:2], width)
    widest = max(value.mean.shape[1] for value in narrow)
    for some in row_slices(len(blocks), 4 * blocks[0].numel() + widest, blocks.device):
        column, values = pattern.rows[some], blocks[some]
        known = {start.number: Cotangents(torch.zeros_like(column), column, values, 0, 1)}
        for value in narrow:
            _make(value, made, known)
        torch.cat([known[value.number].values for value in narrow], 2, out=found[some])
    return found


def _make(value: Gaussian, made: Mapping[int, Entry], known: dict[int, Cotangents]) -> None:
    """Blocks of a value, from those before it."""
    if value.number not in known:
        ((parent, operator),) = made[value.number].parents
        _make(parent, made, known)
        before = known[parent.number]
        moved = operator.forward(before, before, value.mean.shape[1])
        known[value.number] = before.with_values(moved)


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
        entry: the links by which they go on, ``[n, degree]``.
        key: of the pairs that are reached, ``[n, pairs, degree]``.
        weight: variance of the noise there, ``[n, degree]``.
    """

    pair: Tensor
    entry: Tensor
    key: Tensor
    weight: Tensor

    def on(self, values: Tensor, blocks: Tensor) -> Tensor:  # [pairs, outputs, f], [links, c, f]
        """Cotangents by blocks, ``[n, pairs, outputs, degree, columns]``."""
        left = values[self.pair].flatten(1, 2)
        count, ways, degree = self.key.shape
        moved = left @ blocks[self.entry].flatten(1, 2).mT
        return moved.view(count, ways, values.shape[1], degree, -1)

    def energy(self, walks: Tensor) -> Tensor:  # -> [n, pairs, outputs]
        """Variance that each pair gets from walks, each of which is taken by itself."""
        return (walks.square().sum(-1) * self.weight[:, None, None]).sum(-1)


@dataclass(frozen=True, eq=False)
class Ended:
    """Cotangents of a block of outputs that have arrived where the noise is known.

    Args:
        at: the value from which it is.
        pairs: of the outputs with that value.
        narrow: cotangents of the narrow values.
    """

    at: NoiseBlocks
    pairs: Cotangents
    narrow: Sequence[Cotangents]

    @cached_property
    def values(self) -> Tensor:  # [pairs, outputs, features of all narrow values]
        """Cotangents of the narrow values side by side; some are reached by fewer pairs."""
        return torch.cat([each.on(self.pairs).values for each in self.narrow], 2)

    def to_noise(self) -> Cotangents:
        r""":math:`T_{uw} = \sum_v T_{uv} B_{vw}`, in the columns of the root."""
        outputs, rank = self.values.shape[1], self.at.of_narrow.shape[1]
        keys = torch.cat([walks.key.ravel() for walks in self.walks])
        reached, place = torch.unique(keys, return_inverse=True)
        total = self.values.new_zeros(len(reached), outputs, rank)
        for walks, found in zip(self.walks, self._kept, strict=True):
            here, place = place[: walks.key.numel()], place[walks.key.numel() :]
            total.index_add_(0, here, found.transpose(2, 3).reshape(-1, outputs, rank))
        nodes = self.at.pattern.shape[1]
        return Cotangents(reached // nodes, reached % nodes, total, nodes, self.pairs.rows)

    def covariances(self, noise: Cotangents) -> Tensor:  # -> [pairs, outputs, features]
        r""":math:`Cov(z_u, y_v) = \sum_w Cov(z_u, \xi_w) B_{vw}'`."""
        outputs, rank = noise.values.shape[1:]
        found = noise.values.new_empty(len(self.pairs.row), outputs, self.at.kept.shape[2])
        for walks in self.walks:
            count, ways, degree = walks.key.shape
            moved = noise.values[torch.searchsorted(noise.keys, walks.key)]
            left = moved.transpose(2, 3).reshape(count, ways * outputs, degree * rank)
            right = self.at.kept[walks.entry].flatten(1, 2)
            found[walks.pair] = (left @ right).view(count, ways, outputs, -1)
        return found

    @cached_property
    def by_walk(self) -> tuple[Tensor, Tensor]:  # [rows, outputs] each
        """Variance of the outputs from what the root keeps and leaves out, walk by walk."""
        each = self.values.new_empty(2, *self.values.shape[:2])
        for walks, kept in zip(self.walks, self._kept, strict=True):
            for number, walked in enumerate((kept, walks.on(self.values, self.at.rest))):
                each[number, walks.pair] = walks.energy(walked)
        return self.pairs.sum_rows(each[0]), self.pairs.sum_rows(each[1])

    @cached_property
    def _kept(self) -> list[Tensor]:
        """Cotangents at the end of all walks."""
        return [walks.on(self.values, self.at.of_narrow) for walks in self.walks]

    @cached_property
    def walks(self) -> list[_Walks]:
        """All walks, by the degrees of the nodes that they come through."""
        return list(self._by_degrees())

    def _by_degrees(self) -> Iterator[_Walks]:
        pairs, nodes = self.pairs, self.at.pattern.shape[1]
        order = pairs.column.argsort(stable=True)
        ways = torch.bincount(pairs.column, minlength=len(self.at.value))
        first = ways.cumsum(0) - ways
        for node, entry in self.at.by_degree:
            here = ways[node]
            for count in here.unique().tolist():
                if count == 0:
                    continue
                some = (here == count).nonzero().ravel()
                pair = order[first[node[some]][:, None] + torch.arange(count, device=order.device)]
                ends = self.at.pattern.columns[entry[some]]
                key = pairs.row[pair][:, :, None] * nodes + ends[:, None]
                yield _Walks(pair, entry[some], key, self.at.node[ends])
