"""One features x features block of covariances per node, carried through a network."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

import torch
from torch import Tensor

from varigraph.errors import MissingRuleError
from varigraph.moments.affine import InputNoise
from varigraph.moments.gaussian import Gaussian
from varigraph.moments.softmax_moments import AT_ONCE, row_slices
from varigraph.moments.sparse import Sparse
from varigraph.moments.tape import Columns, Dense, Entry, Operator, Scale, Sum, Tape


@dataclass(eq=False)
class NodeBlocks:
    """Covariances of all values on a tape, of which those are held that are still needed.

    A value is held as variances ``[nodes, features]`` until a linear map ties its numbers together,
    then as ``[nodes, features, features]``.

    Args:
        tape: record of the pass.
        output: the value whose covariance is wanted.
        x: the features.
    """

    tape: Tape
    output: Gaussian
    x: Gaussian
    held: dict[int, Tensor] = field(default_factory=dict, init=False)

    @property
    def covariance(self) -> Tensor:  # [nodes, classes, classes]
        """Covariance of the output."""
        self.held = {id(self.x): self.x.var}
        added = {id(drop.value): drop.added for drop in self.tape.drops}
        for entry in self.tape.entries[1:]:
            block = self._sum_of_parts(entry)
            if id(entry.value) in added:
                more = added[id(entry.value)]
                block = block + more if block.dim() == 2 else _on_diagonal(block, more)
            self.held[id(entry.value)] = block
            for parent, _ in entry.parents:
                if self._last(parent, entry):
                    self.held.pop(id(parent), None)
        self._refuse_unknown(self.output)
        found = self.held[id(self.output)]
        return found if found.dim() == 3 else torch.diag_embed(found)

    @property
    def bytes(self) -> tuple[int, int]:
        """What that needs at its worst moment, and the features of the largest block then."""
        held, worst = {id(self.x): 0}, (0, 0)
        tied: set[int] = set()
        for entry in self.tape.entries[1:]:
            nodes, size = entry.value.mean.shape
            if any(isinstance(op, Dense) or id(parent) in tied for parent, op in entry.parents):
                tied.add(id(entry.value))
            own = nodes * size * (size if id(entry.value) in tied else 1)
            own *= entry.value.mean.element_size()
            new = sum(not self._in_place(parent, op, entry) for parent, op in entry.parents)
            worst = max(worst, (sum(held.values()) + min(new, 2) * own, size))
            held[id(entry.value)] = own
            for parent, _ in entry.parents:
                if self._last(parent, entry):
                    held.pop(id(parent), None)
        return worst

    def _sum_of_parts(self, entry: Entry) -> Tensor:
        total: Tensor | None = None
        for parent, operator in entry.parents:
            self._refuse_unknown(parent)
            block = self.held[id(parent)]
            out = block if self._in_place(parent, operator, entry) else None
            part = _moved(block, operator, parent, entry.value, out)
            total = part if total is None else _plus(total, part)
        assert total is not None
        return total

    def _refuse_unknown(self, value: Gaussian) -> None:
        if not self.tape.knows(value):
            name = self.tape.unknown.get(id(value), "a step of the model")
            raise MissingRuleError(f"{name}() has no response", 'take method="sampled"')

    def _in_place(self, parent: Gaussian, operator: Operator, entry: Entry) -> bool:
        """Whether a block may be changed: nobody else needs it, and it is not the user's."""
        once = sum(value is parent for value, _ in entry.parents) == 1
        alone = once and self._last(parent, entry) and parent is not self.x
        square = isinstance(operator, Sum) and operator.expected.shape[0] == len(parent)
        return alone and (square or isinstance(operator, Scale))

    def _last(self, parent: Gaussian, entry: Entry) -> bool:
        return self._last_user[id(parent)] is entry and parent is not self.output

    @cached_property
    def _last_user(self) -> dict[int, Entry]:
        return {id(parent): entry for entry in self.tape.entries for parent, _ in entry.parents}


def _plus(total: Tensor, part: Tensor) -> Tensor:
    """The sum, in the place of its larger part; both are ours."""
    if total.dim() == part.dim():
        return total.add_(part)
    block, single = (total, part) if total.dim() == 3 else (part, total)
    return _on_diagonal(block, single)


def _on_diagonal(block: Tensor, variances: Tensor) -> Tensor:  # [.., n, n], [.., n]
    block.diagonal(dim1=1, dim2=2).add_(variances)
    return block


def _scaled(block: Tensor, factor: Tensor, out: Tensor | None) -> Tensor:  # [nodes, n (, n)]
    """Each node's block scaled from both sides."""
    if block.dim() == 2:
        return block * factor.square()
    out = torch.empty_like(block) if out is None else out
    for some in row_slices(len(block), block[0].numel()):
        by = factor[some]
        torch.mul(block[some], by[:, :, None], out=out[some]).mul_(by[:, None, :])
    return out


def _moved(
    block: Tensor, operator: Operator, parent: Gaussian, child: Gaussian, out: Tensor | None
) -> Tensor:
    """Covariance of a child that comes from one of its parents, in the place of ``out``."""
    if isinstance(operator, Dense):
        return _mapped(block, operator.weight)
    if isinstance(operator, Scale):
        return _scaled(block, operator.factor.expand_as(parent.mean), out)
    if isinstance(operator, Columns):
        left, right = operator.first, child.mean.shape[1] - operator.first - block.shape[-1]
        pad = (left, right) if block.dim() == 2 else (left, right, left, right)
        return torch.nn.functional.pad(block, pad)
    assert isinstance(operator, Sum)
    return _summed(block, operator, parent, out)


def _mapped(block: Tensor, weight: Tensor) -> Tensor:
    out = block.new_empty(len(block), len(weight), len(weight))
    slices = row_slices(len(block), len(weight) * weight.shape[1])
    if block.dim() == 3:
        for some in slices:
            out[some] = weight @ block[some] @ weight.T
        return out
    try:
        noise = InputNoise.of(block, 0)
    except MissingRuleError:  # differs by node and by feature: no shortcut
        for some in slices:
            out[some] = (weight * block[some, None]) @ weight.T
        return out
    return torch.mul(noise.node[:, None, None], (weight * noise.feature) @ weight.T, out=out)


def _summed(block: Tensor, operator: Sum, parent: Gaussian, out: Tensor | None) -> Tensor:
    links, matrix = operator.neighbours, operator.expected
    squares, coin = (_squared(matrix), None) if links is None else (links.square, links.coin)
    if block.dim() == 2:
        total = squares @ block
        return total if coin is None else total + coin @ parent.mean.square()
    out = block.new_empty(matrix.shape[0], *block.shape[1:]) if out is None else out
    size, flat, into = block.shape[-1], block.flatten(1), out.flatten(1)
    # Some columns at a time: the product would make a copy of what it returns.
    for some in torch.arange(size**2, device=block.device).split(max(32, AT_ONCE // len(block))):
        columns = slice(int(some[0]), int(some[-1]) + 1)
        part = squares @ flat[:, columns]
        if coin is not None:
            part += coin @ (parent.mean[:, some // size] * parent.mean[:, some % size])
        into[:, columns] = part
    return out


def _squared(matrix: Sparse) -> Sparse:
    return Sparse(matrix.rows, matrix.columns, matrix.values.square(), matrix.shape)
