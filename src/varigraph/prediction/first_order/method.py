"""``method="first-order"``: all correlations, to first order in every source."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property, reduce

import torch
from torch import Tensor

from varigraph.moments.affine import Affine
from varigraph.prediction.first_order.noise_blocks import Ended, NoiseBlocks
from varigraph.prediction.first_order.noise_root import NoiseRoot, sample_of
from varigraph.prediction.first_order.products import covariances
from varigraph.prediction.first_order.responses import Responses, needed_for, walk_back
from varigraph.prediction.first_order.row_costs import RowCosts
from varigraph.prediction.first_order.shares import Block, NoiseAlone, NoiseShare, Share
from varigraph.prediction.linearised import Linearised, linearised
from varigraph.prediction.logits import CorrelatedLogits
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
from varigraph.prediction.sources.source import INTERACTIONS, SOURCES, considered


def first_order(question: Question) -> Prediction:
    r"""Closed form with all correlations: features, links and dropout masks, no sampling.

    Every activation is replaced by its Gaussian-averaged slope. The network is then linear in all
    noise, and the covariance of a node's logits is a sum over walks in the graph:

    .. math::
        \Sigma_u = \sum_s \sum_w T_{uw} V_w^{(s)} T_{uw}'

    with the response T of output u to place w and the variance V that source s has there. Exact
    for linear networks. Memory is bounded by working through blocks of output nodes.
    """
    with torch.no_grad():
        return _first_order(question)


def _first_order(question: Question) -> Prediction:
    network = FirstOrder.of(question)
    answer = answer_by_blocks(
        network.blocks(),
        len(network.rows),
        question,
        active=network.active,
        method=": ".join(["first-order", *network.doubts]),
        approximate=network.whole.approximate,
    )
    return replace(answer, as_written=network.whole.as_written)


@dataclass(eq=False)
class FirstOrder:
    """A linearised network and what its sources do in it.

    Args:
        question: what is asked.
        whole: the network.
        alone: what sources of independent noise do where nothing else is uncertain.
    """

    question: Question
    whole: Linearised
    alone: Mapping[str, NoiseAlone | None]

    @classmethod
    def of(cls, question: Question) -> FirstOrder:
        """Run the network once, and once more for each source that must be known alone."""
        whole = linearised(question)  # first: it decides how its layers are followed
        noises = [source for source in considered(question) if source.places_noise]
        alone = {source.name: NoiseAlone.of(question, source) for source in noises}
        return cls(question, whole, alone)

    @property
    def doubts(self) -> list[str]:
        """What makes class probabilities doubtful, right as the logits are."""
        question = self.question
        if question.task == "regression":
            return []
        masks = {name for name, source in SOURCES.items() if source.masks}
        several = sum(noise.source in masks for noise in self.whole.tape.noises) > 1
        links = question.links is not None and question.links.uncertain
        found = ["uncertain links"] * links + ["masks that multiply"] * several
        return [f"class probabilities are rough behind {' and '.join(found)}"] if found else []

    @cached_property
    def shares(self) -> list[Share]:
        """What each source causes."""
        return [
            SOURCES[name].share(self) or NoiseShare(name, self, self.alone.get(name))
            for name in self.question.divided
        ]

    @cached_property
    def rows(self) -> Tensor:  # [nodes asked for]
        """The nodes to answer for."""
        output = self.whole.output
        rows = check_nodes(self.question.nodes, len(output))
        every = torch.arange(len(output), device=output.mean.device)
        return every if rows is None else rows

    @cached_property
    def active(self) -> list[str]:
        """The parts that cause variance, known before any of them is computed."""
        alone = [share.source for share in self.shares if share.active]
        together = len(alone) > 1 or any(share.interacts for share in self.shares)
        return [*alone, INTERACTIONS] if together else alone

    @cached_property
    def bent(self) -> bool:
        """Whether the logits are not linear in noise of the features that there is."""
        return self.question.noisy and not isinstance(self.whole.output, Affine)

    @cached_property
    def root(self) -> NoiseRoot | None:
        """The noise's root, from the responses of some nodes; None where a closed form does."""
        if not self.bent:
            return None
        some = sample_of(self.rows)
        blocks = self.budget.blocks(some, self.costs.walking[0][some])
        samples = (self.responses(block, set()) for block in blocks)
        return NoiseRoot.of(samples, nodes=len(self.whole.output))

    @cached_property
    def ends(self) -> dict[int, NoiseBlocks]:
        """Values from which on the noise is known in the columns of its root, by number."""
        root, tape = self.root, self.whole.tape
        if root is None or root.whole:
            return {}
        needed, room = needed_for(tape, self.wanted), self.question.room - self.budget.held
        found: dict[int, NoiseBlocks] = {}
        for entry in tape.entries:
            if not any(parent.number in needed for parent, _ in entry.parents):
                blocks = NoiseBlocks.of(entry, root, room, tape)
                if blocks is not None:
                    found[entry.value.number] = blocks
                    room -= blocks.bytes
        return found if room > self._worst else {}

    @cached_property
    def products(self) -> dict[int, Tensor]:  # [nodes, features, features] each
        """Covariance of products of two noises, by the numbers of the sums that they are in."""
        tape = self.whole.tape
        if self.root is None or not tape.products:
            return {}
        return covariances(tape, self.root, list(self.ends.values()))

    @cached_property
    def whole_root(self) -> NoiseRoot | None:
        """The same with nothing left out."""
        return None if self.root is None else replace(self.root, whole=True)

    @cached_property
    def by_masks(self) -> dict[str, Tensor]:  # [rows, classes, classes] each
        """Shares by T draws, where that is asked for."""
        found = {source.name: source.by_masks(self.question) for source in SOURCES.values()}
        return {name: share for name, share in found.items() if share is not None}

    @cached_property
    def budget(self) -> Budget:
        """What there is room for; refused where it is not enough for what is always held."""
        output, tape, nodes = self.whole.output, self.whole.tape, len(self.rows)
        held = held_by(tape) + sum(share.held for share in self.shares)
        held += of_small_work(self.question)
        held += of_answer(nodes, output, self.question) + of_sampled_masks(
            nodes, output, self.question
        )
        budget = Budget(self.question, held)
        what, way = f"the layers and the answer of {nodes:,} nodes", of_activations(tape)
        budget.refuse_beyond(way, what, enough=lambda: self._worst)
        return budget

    @property
    def _worst(self) -> float:
        """Bytes that the costliest of the nodes needs."""
        return float(self.cost(None)[self.rows].max())

    @cached_property
    def costs(self) -> RowCosts:
        """Bytes that each output node needs."""
        return RowCosts(self.whole.tape, self.whole.output, self.wanted)

    @cached_property
    def costs_to_ends(self) -> RowCosts:
        """The same where responses end as soon as they can."""
        patterns = {number: blocks.pattern for number, blocks in self.ends.items()}
        return replace(self.costs, ends=patterns) if patterns else self.costs

    def cost(self, root: NoiseRoot | None) -> Tensor:  # [nodes]
        """Those bytes at the worst moment, with a root of the noise or with the largest."""
        output = self.whole.output
        costs = self.costs if root is None or root.whole else self.costs_to_ends
        rank = costs.largest_rank if root is None else root.rank
        work = reduce(torch.maximum, (share.cost(rank, costs) for share in self.shares))
        classes = output.mean.shape[1]
        results = 8 * classes**2 * (1 + classes if self.bent else 1)
        walking, left = costs.walking
        return torch.maximum(walking, left + work) + results * output.mean.element_size()

    @cached_property
    def wanted(self) -> set[int]:
        """Values to which the response of the outputs is needed."""
        return set().union(*(share.wanted for share in self.shares))

    def responses(self, rows: Tensor, wanted: set[int], ends: Collection[int] = ()) -> Responses:
        """Responses of the outputs of some nodes."""
        until = wanted.union(*(share.returning for share in self.shares))
        found = walk_back(self.whole.tape, self.whole.output, rows, until=until, ends=ends)
        for share in self.shares:
            share.change(found)
        return found

    def blocks(self) -> Iterator[CorrelatedLogits]:
        """Mean and covariances, block by block."""
        done = 0
        for rows in self._rows_at_once(self.rows, self.root):
            block, here = self.block(rows), slice(done, done + len(rows))
            drawn = {name: share[here] for name, share in self.by_masks.items()}
            yield replace(block, shares={**block.shares, **drawn})
            done = here.stop
            self.question.progress(done, len(self.rows))

    def _rows_at_once(self, rows: Tensor, root: NoiseRoot | None) -> Iterator[Tensor]:
        held = sum(blocks.bytes for blocks in self.ends.values())
        budget = replace(self.budget, held=self.budget.held + held)
        # Walks that end early are multiplied in groups, which should be large.
        return budget.blocks(rows, self.cost(root)[rows], times=4 if self.ends else 1)

    def block(self, rows: Tensor) -> CorrelatedLogits:
        """Some nodes; those that the root of the noise does not serve are done with all of it."""
        block, poor = self._with_root(rows, self.root)
        if bool(poor.any()):
            index = poor.nonzero().ravel()
            for some in self._rows_at_once(rows[index], self.whole_root):
                place, index = index[: len(some)], index[len(some) :]
                block.put(place, self._with_root(some, self.whole_root)[0])
        return block

    def _with_root(
        self, rows: Tensor, root: NoiseRoot | None
    ) -> tuple[CorrelatedLogits, Tensor]:  # -> [rows]
        """Logits of some nodes, and which of them lose too much by the rank of the root."""
        mean, ends = self.whole.output.mean[rows], self.ends if root is self.root else {}
        narrow = {value.number for blocks in ends.values() for value in blocks.narrow}
        responses = self.responses(rows, self.wanted | narrow, ends)
        none = torch.zeros_like(mean[:, :, None] @ mean[:, None])
        block = Block(
            rows=rows,
            responses=responses,
            root=root,
            mean=mean,
            shares=dict.fromkeys(self.question.parts, none),
            poor=torch.zeros(len(rows), dtype=torch.bool, device=rows.device),
            ended=_ended(responses, ends),
        )
        for share in self.shares:
            share.add_to(block)
        return CorrelatedLogits(block.mean, block.shares, block.bent), block.poor


def _ended(responses: Responses, ends: Mapping[int, NoiseBlocks]) -> list[Ended]:
    """Where responses have ended, with those of the narrow values on the way there."""
    return [
        Ended(ends[number], pairs, [responses.of[value.number] for value in ends[number].narrow])
        for number, pairs in responses.ended.items()
    ]
