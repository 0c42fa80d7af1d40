"""``method="first-order"``: all correlations, to first order in every source."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from varigraph.moments.affine import Affine
from varigraph.moments.pairs import row_blocks
from varigraph.prediction.answer import answer
from varigraph.prediction.checks import check_nodes
from varigraph.prediction.first_order.bends import from_bends
from varigraph.prediction.first_order.carried_noise import (
    CarriedNoise,
    carried_noise,
    from_carried_noise,
)
from varigraph.prediction.first_order.coin_responses import (
    CoinSum,
    coin_sums,
    from_coins,
    returning_noise,
    shift_of_mean,
)
from varigraph.prediction.first_order.responses import Responses, sums_on_the_way, walk_back
from varigraph.prediction.first_order.shares import NoiseRoot, from_masks, to_features
from varigraph.prediction.linearised import Linearised, linearised
from varigraph.prediction.logits import Bent, CorrelatedLogits, with_sampled_masks
from varigraph.prediction.prediction import PARTS, Prediction
from varigraph.prediction.question import Question

#: Nodes whose responses decide the rank of the noise's root.
SAMPLE = 128


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
    whole = linearised(question)
    rows = check_nodes(question.nodes, len(whole.output))
    every = torch.arange(len(whole.output), device=whole.output.mean.device)
    logits = _Network(question, whole).logits(every if rows is None else rows)
    return answer(with_sampled_masks(logits, question), question, method="first-order")


@dataclass(eq=False)
class _Network:
    """A linearised network and what its sources do in it."""

    question: Question
    whole: Linearised

    @cached_property
    def masks_only(self) -> Linearised:
        """The same network with nothing random but dropout."""
        return linearised(self.question.only("weights"))

    @cached_property
    def sums(self) -> list[CoinSum]:
        """Sums over uncertain links."""
        return coin_sums(self.whole.tape)

    @cached_property
    def carried(self) -> list[tuple[CoinSum, CarriedNoise]]:
        """What noise each of them carries."""
        tape, masks, memory = self.whole.tape, self.masks_only.tape, self.question.memory
        return [(s, carried_noise(tape, masks, s, memory=memory)) for s in self.sums]

    @cached_property
    def returns(self) -> list[tuple[CoinSum, Affine, Tensor]]:
        """What noise comes back to a node over the link that it went out on."""
        tape = self.whole.tape
        return [(s, leaf, m) for s in self.sums for leaf, m in returning_noise(tape, s)]

    def responses(self, rows: Tensor, wanted: set[int]) -> Responses:
        """Responses of the outputs of some nodes, walks over one link and back included."""
        wanted = wanted | {id(coin_sum.entry.value) for coin_sum, _, _ in self.returns}
        found = walk_back(self.whole.tape, self.whole.output, rows, until=wanted)
        for coin_sum, leaf, matrix in self.returns:
            pairs = found.of.get(id(coin_sum.entry.value))
            if pairs is not None:
                more = pairs.with_values(pairs.values @ matrix[pairs.column])
                found.boundary.append((leaf, more))
        return found

    def logits(self, rows: Tensor) -> CorrelatedLogits:  # [nodes]
        """Mean and covariances, block by block."""
        blocks: list[CorrelatedLogits] = []
        for some in self._blocks(rows):
            blocks.append(self._block(some))
            self.question.progress(sum(len(block.mean) for block in blocks), len(rows))
        bends = [block.bent for block in blocks if block.bent is not None]
        return CorrelatedLogits(
            torch.cat([block.mean for block in blocks]),
            {part: torch.cat([block.shares[part] for block in blocks]) for part in PARTS},
            Bent.joined(bends) if bends else None,
        )

    def _blocks(self, rows: Tensor) -> Iterator[Tensor]:
        output, tape = self.whole.output, self.whole.tape
        widest = max(value.value.mean.shape[1] for value in tape.entries[1:])
        numbers = output.mean.shape[1] * widest
        return row_blocks([sums_on_the_way(tape, output)], rows, numbers, self.question.memory)

    @cached_property
    def wanted(self) -> set[int]:
        """Values to which the response of the outputs is needed."""
        tape = self.whole.tape
        values = [drop.value for drop in tape.drops] + [s.entry.value for s in self.sums]
        if self.root is not None:
            values += [bend.value for bend in tape.bends]
        return {id(value) for value in values}

    @cached_property
    def root(self) -> NoiseRoot | None:
        """The noise's root, from the responses of some nodes; None where a closed form does."""
        output = self.whole.output
        if isinstance(output, Affine) or not self.question.noisy:
            return None
        rows = check_nodes(self.question.nodes, len(output))
        every = torch.arange(len(output), device=output.mean.device) if rows is None else rows
        some = every[:: max(1, len(every) // SAMPLE)]
        return NoiseRoot.of([self.responses(block, set()) for block in self._blocks(some)])

    def _block(self, rows: Tensor) -> CorrelatedLogits:
        whole, question = self.whole, self.question
        responses = self.responses(rows, self.wanted)
        mean, bent = whole.output.mean[rows], None
        shares = dict.fromkeys(PARTS, torch.zeros_like(mean[:, :, None] @ mean[:, None]))
        if isinstance(whole.output, Affine):
            shares["features"] = whole.output.covariance[rows]
        elif self.root is not None:
            noise = to_features(responses, self.root)
            straight = noise.gram(self.root.noise.node)
            bent = Bent.of(straight, from_bends(whole.tape, responses, noise, self.root))
            shares["features"] = straight + bent.covariance
        drops = whole.tape.drops
        if drops:
            alone = [drop.added for drop in self.masks_only.tape.drops]
            rest = [drop.added - own for drop, own in zip(drops, alone, strict=True)]
            shares["weights"] = from_masks(responses, drops, alone)
            shares["interactions"] = from_masks(responses, drops, rest)
        if self.sums and question.links is not None:
            mean = mean + shift_of_mean(responses, self.sums)
            shares["links"] = from_coins(responses, self.sums, question.links.coins.prob, len(rows))
            carried = from_carried_noise(responses, self.carried)
            shares["interactions"] = shares["interactions"] + carried
        return CorrelatedLogits(mean, shares, bent)
