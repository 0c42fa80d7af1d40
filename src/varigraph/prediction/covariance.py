"""``method="covariance"``: one features x features block per node, nodes taken as independent."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property

import torch
from torch import Tensor

from varigraph.errors import MissingRuleError
from varigraph.moments.cotangents import row_slices
from varigraph.moments.gaussian import Gaussian
from varigraph.moments.tape import Entry, Operator, Tape
from varigraph.prediction.linearised import Linearised, linearised
from varigraph.prediction.logits import CorrelatedLogits, active_parts
from varigraph.prediction.memory import (
    Budget,
    held_by,
    of_activations,
    of_answer,
    of_sampled_masks,
    of_small_work,
)
from varigraph.prediction.prediction import Prediction, answer_by_blocks
from varigraph.prediction.question import Question, check_nodes
from varigraph.prediction.sources.source import INTERACTIONS, SOURCES


def covariance(question: Question) -> Prediction:
    r"""Mean and covariance of each node's numbers, layer by layer.

    .. math::
        \Sigma_{W x + b} = W \Sigma W' \qquad
        \Sigma_{f(x)} = g g' \circ \Sigma \qquad
        \Sigma_u = \sum_v E[S_{uv}^2] \Sigma_v + Var[S_{uv}] \mu_v \mu_v'

    with the averaged slope g of an activation. The numbers of a node keep their correlation, those
    of different nodes lose it: a quarter to a third low on two layers. But there is no pattern of
    walks, so that deep networks and dense graphs are no harder than others.
    """
    with torch.no_grad():
        whole, mean, approximate = _blocks(question)
        alone = {source: _alone(question, source, whole) for source in question.divided}
    rest = whole - sum(alone.values())
    logits = CorrelatedLogits(mean, {**alone, INTERACTIONS: rest})
    active = active_parts(logits)  # of all nodes: the answer is the same whichever are asked for
    asked = check_nodes(question.nodes, len(mean))
    logits = logits if asked is None else logits.rows(asked)
    for name in alone:
        drawn = SOURCES[name].by_masks(question)
        if drawn is not None:
            logits = replace(logits, shares={**logits.shares, name: drawn})
    nodes, classes = logits.mean.shape
    blocks = (logits.rows(rows) for rows in row_slices(nodes, 16 * classes**2))
    return answer_by_blocks(
        blocks, nodes, question, active=active, method="covariance", approximate=approximate
    )


def _alone(question: Question, source: str, whole: Tensor) -> Tensor:
    if question.sources == {source}:
        return whole
    if source not in question.sources:
        return torch.zeros_like(whole[:1, :1, :1]).expand_as(whole)
    return _blocks(question.only(source))[0]


def _blocks(question: Question) -> tuple[Tensor, Tensor, tuple[str, ...]]:
    """Covariance and mean of the logits of all nodes; rules that are approximate."""
    network = linearised(question, exact=False)
    blocks = NodeBlocks(network.tape, network.output, question.x)
    _refuse_too_large(question, network, blocks)
    return blocks.covariance, network.output.mean, network.approximate


def _refuse_too_large(question: Question, network: Linearised, blocks: NodeBlocks) -> None:
    output = network.output
    nodes, classes = output.mean.shape
    results = (1 + len(question.parts)) * nodes * classes**2 * output.mean.element_size()
    held = held_by(network.tape) + results + of_answer(nodes, output, question)
    held += of_small_work(question)
    held += of_sampled_masks(nodes, output, question)
    need, size = blocks.bytes
    need = max(need, of_activations(network.tape))
    Budget(question, held).refuse_beyond(need, f"{nodes:,} blocks of {size} x {size} numbers")


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
        return entry.value.var if total is None else total  # what is given beside the features

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
