"""Bytes that the responses of each output node need, before any of them is computed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, reduce

import torch
from torch import Tensor

from varigraph.moments.affine import Affine
from varigraph.moments.gaussian import Gaussian
from varigraph.moments.tape import Entry, Noise, Operator, Tape
from varigraph.prediction.first_order.responses import leaves, way_back
from varigraph.sparse import Sparse

#: Bytes of a pair beside its cotangents: row, column, key.
PAIR = 24
#: Messages up to this width have the covariance of their noise computed.
WIDEST = 32
#: Bytes of a walk while walks are sorted by where they end.
WALK = 96


@dataclass(eq=False)
class RowCosts:
    """Bytes for each output node, as if every walk ended at a pair of its own.

    Args:
        tape: record of the pass.
        output: the value to start from.
        until: numbers of the values whose cotangents are kept.
        ends: pairs of nodes by which noise is known at values behind which nothing is visited.
    """

    tape: Tape
    output: Gaussian
    until: set[int]
    ends: Mapping[int, Sparse] = field(default_factory=dict)
    _pairs: dict[int, Tensor] = field(default_factory=dict, init=False)

    @cached_property
    def way(self) -> list[tuple[Entry, list[tuple[Gaussian, Operator]]]]:
        """The values on the way back."""
        return list(way_back(self.tape, self.output, until=self.until, ends=self.ends))

    @property
    def visited(self) -> set[int]:
        """Numbers of those values."""
        return {entry.value.number for entry, _ in self.way}

    @cached_property
    def boundary(self) -> list[Affine]:
        """Where the way leaves what is linear in the features."""
        steps = [(entry, parent) for entry, parents in self.way for parent, _ in parents]
        first = [self.output] if isinstance(self.output, Affine) else []
        found = first + [parent for entry, parent in steps if leaves(entry, parent)]
        return [value for value in found if isinstance(value, Affine)]

    @property
    def largest_rank(self) -> int:
        """Columns of the noise's root if none is left out."""
        if any(leaf.noise.by_feature for leaf in self.boundary):
            return max(len(leaf.noise.feature) for leaf in self.boundary)
        return sum(leaf.mean.shape[1] * len(leaf.terms) for leaf in self.boundary)

    def walks(self, value: Gaussian, ahead: Tensor | None = None) -> Tensor:  # [nodes]
        """Number of walks from each output node to a value, times what each node has ahead."""
        start = ahead if ahead is not None else ones(len(value), value.mean)
        counts: dict[int, Tensor] = {value.number: start}
        for entry, parents in reversed(self.way):
            ways = [
                counts[parent.number]
                if operator.matrix is None
                else one_sum(operator.matrix, counts[parent.number])
                for parent, operator in parents
                if parent.number in counts
            ]
            if ways:
                counts[entry.value.number] = torch.stack(ways).sum(0)
        found = counts.get(self.output.number)
        return self._none if found is None else found

    def pairs(self, value: Gaussian) -> Tensor:  # [nodes]
        """Largest number of pairs of each output node with a value."""
        if value.number not in self._pairs:
            self._pairs[value.number] = self.walks(value).clamp_max(len(value))
        return self._pairs[value.number]

    def steps(self, value: Gaussian, matrix: Sparse) -> Tensor:  # [nodes]
        """Number of walks that go on from a value through a sum."""
        ahead = one_sum(matrix, ones(matrix.shape[1], matrix.values))
        return self.walks(value, ahead).clamp_max(len(matrix.values))

    def cotangents(self, value: Gaussian, width: int | None = None) -> Tensor:  # [nodes]
        """Bytes of the cotangents of a value, or of so many numbers in its place."""
        mean = self.output.mean
        width = value.mean.shape[1] if width is None else width
        return self.pairs(value) * (mean.shape[1] * width * mean.element_size() + PAIR)

    @cached_property
    def walking(self) -> tuple[Tensor, Tensor]:  # [nodes], [nodes]
        """Bytes while a tape is walked back, at the worst moment and at the end."""
        held: dict[object, Tensor] = {self.output.number: self.cotangents(self.output)}
        worst = self._none
        for entry, parents in self.way:
            own = self.cotangents(entry.value)
            for parent, operator in parents:
                moved = self.cotangents(parent)
                work = moved + own
                if operator.matrix is not None:
                    work = work + WALK * self.steps(entry.value, operator.matrix)
                worst = torch.maximum(worst, _sum(held.values()) + moved + work)
                held[parent.number] = moved
                if leaves(entry, parent):
                    held[len(held), "boundary"] = moved
            held[entry.value.number, "pattern"] = PAIR * self.pairs(entry.value)
            if entry.value.number not in self.until:
                del held[entry.value.number]
        return worst, _sum(held.values())

    @property
    def _none(self) -> Tensor:  # [nodes]
        """No bytes for any node."""
        mean = self.output.mean
        return torch.zeros(len(mean), dtype=torch.float64, device=mean.device)

    def from_noises(self, noises: Sequence[Noise]) -> Tensor:  # [nodes]
        """Bytes for the covariance that noise causes which is added on the way."""
        values = [noise.value for noise in noises]
        return largest_of(self.products(value, value.mean.shape[1]) for value in values)

    def products(self, value: Gaussian, gathered: int) -> Tensor:
        """Bytes for the product of cotangents with themselves, numbers of each pair between."""
        classes, item = self.output.mean.shape[1], self.output.mean.element_size()
        numbers = 2 * classes * value.mean.shape[1] + classes**2 + gathered
        return self.pairs(value) * numbers * item

    def from_features(self, rank: int) -> Tensor:  # [nodes]
        """Bytes for the response to the noise of the features, and for how that bends."""
        total = sum((self.cotangents(entry.value) for entry, _ in self.way), torch.zeros(()))
        reached = [entry.value for entry, _ in self.way if entry.value.number in self.ends]
        total = total + sum((self._at_end(value, rank) for value in reached), torch.zeros(()))
        for leaf in self.boundary:
            total = total + (1 + len(leaf.terms)) * self.cotangents(leaf)
            for path in leaf.terms:
                total = total + self._spread(
                    [leaf.noise.sums[number] for number in path], leaf, rank
                )
        return total

    def _at_end(self, value: Gaussian, rank: int) -> Tensor:
        """Bytes for the walks that go on from a value behind which the noise is known."""
        pattern = self.ends[value.number]
        walks = self.walks(value, one_sum(pattern, ones(pattern.shape[1], pattern.values)))
        each = 4 * self.output.mean.shape[1] * rank * self.output.mean.element_size() + WALK
        return each * walks + 2 * self.cotangents(value)

    def _spread(self, chain: Sequence[Sparse], leaf: Affine, rank: int) -> Tensor:
        nodes = chain[-1].shape[1] if chain else len(leaf)  # which may be others than the leaf's
        mean, ahead = self.output.mean, ones(nodes, self.output.mean)
        for matrix in reversed(chain):
            ahead = one_sum(matrix, ahead)
        walks = self.walks(leaf, ahead)
        each = mean.shape[1] * rank * mean.element_size() + PAIR
        at_a_step = max((len(matrix.values) for matrix in chain), default=0)
        return 3 * each * walks.clamp_max(nodes) + WALK * walks.clamp_max(at_a_step)


def ones(count: int, like: Tensor) -> Tensor:
    """So many walks, one for each node, where another tensor is."""
    return torch.ones(count, dtype=torch.float64, device=like.device)


def one_sum(matrix: Sparse, ahead: Tensor) -> Tensor:  # [columns] -> [rows]
    """For each row the sum of what its entries have ahead."""
    steps = torch.zeros(matrix.shape[0], dtype=torch.float64, device=ahead.device)
    return steps.index_add_(0, matrix.rows, ahead[matrix.columns])


def largest_of(parts: Iterable[Tensor]) -> Tensor:
    """The most that any part needs."""
    return reduce(torch.maximum, parts, torch.zeros((), dtype=torch.float64))


def _sum(parts: Iterable[Tensor]) -> Tensor:
    return torch.stack(list(parts)).sum(0)
