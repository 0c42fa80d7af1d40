"""One features x features block of covariances per node, carried through a network."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

import torch
from torch import Tensor

from varigraph.errors import MissingRuleError
from varigraph.moments.gaussian import Gaussian
from varigraph.moments.operators import Operator
from varigraph.moments.tape import Entry, Tape


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
        self.held = {self.x.number: self.x.var}
        added = {noise.value.number: noise.added for noise in self.tape.noises}
        for entry in self.tape.entries[1:]:
            block = self._sum_of_parts(entry)
            if entry.value.number in added:
                block = _with(block, added[entry.value.number])
            self.held[entry.value.number] = block
            for parent, _ in entry.parents:
                if self._last(parent, entry):
                    self.held.pop(parent.number, None)
        self._refuse_unknown(self.output)
        found = self.held[self.output.number]
        return found if found.dim() == 3 else torch.diag_embed(found)

    @property
    def bytes(self) -> tuple[int, int]:
        """What that needs at its worst moment, and the features of the largest block then."""
        held, worst = {self.x.number: 0}, (0, 0)
        tied: set[int] = set()
        for entry in self.tape.entries[1:]:
            nodes, size = entry.value.mean.shape
            blocks = any(n.value is entry.value and n.added.dim() == 3 for n in self.tape.noises)
            if blocks or any(op.ties or parent.number in tied for parent, op in entry.parents):
                tied.add(entry.value.number)
            own = nodes * size * (size if entry.value.number in tied else 1)
            own *= entry.value.mean.element_size()
            new = sum(not self._in_place(parent, op, entry) for parent, op in entry.parents)
            worst = max(worst, (sum(held.values()) + min(new, 2) * own, size))
            held[entry.value.number] = own
            for parent, _ in entry.parents:
                if self._last(parent, entry):
                    held.pop(parent.number, None)
        return worst

    def _sum_of_parts(self, entry: Entry) -> Tensor:
        total: Tensor | None = None
        for parent, operator in entry.parents:
            self._refuse_unknown(parent)
            block = self.held[parent.number]
            out = block if self._in_place(parent, operator, entry) else None
            part = operator.blocks(block, parent.mean, entry.value.mean.shape[1], out)
            total = part if total is None else _plus(total, part)
        assert total is not None
        return total

    def _refuse_unknown(self, value: Gaussian) -> None:
        if not self.tape.knows(value):
            maker = self.tape.maker_of(value)
            raise MissingRuleError(f"{maker} has no response", 'take method="sampled"')

    def _in_place(self, parent: Gaussian, operator: Operator, entry: Entry) -> bool:
        """Whether a block may be changed: nobody else needs it, and it is not the user's."""
        once = sum(value is parent for value, _ in entry.parents) == 1
        alone = once and self._last(parent, entry) and parent is not self.x
        return alone and operator.overwrites(len(parent))

    def _last(self, parent: Gaussian, entry: Entry) -> bool:
        return self._last_user[parent.number] is entry and parent is not self.output

    @cached_property
    def _last_user(self) -> dict[int, Entry]:
        return {parent.number: entry for entry in self.tape.entries for parent, _ in entry.parents}


def _with(block: Tensor, more: Tensor) -> Tensor:
    """A block with independent noise on it, of which variances or a covariance are known."""
    if block.dim() == 2:
        return block + more if more.dim() == 2 else torch.diag_embed(block) + more
    return _on_diagonal(block, more) if more.dim() == 2 else block.add_(more)


def _plus(total: Tensor, part: Tensor) -> Tensor:
    """The sum, in the place of its larger part; both are ours."""
    if total.dim() == part.dim():
        return total.add_(part)
    block, single = (total, part) if total.dim() == 3 else (part, total)
    return _on_diagonal(block, single)


def _on_diagonal(block: Tensor, variances: Tensor) -> Tensor:  # [.., n, n], [.., n]
    block.diagonal(dim1=1, dim2=2).add_(variances)
    return block
