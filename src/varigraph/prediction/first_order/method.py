"""``method="first-order"``: all correlations, to first order in every source."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from varigraph.moments.affine import Affine
from varigraph.moments.pairs import row_blocks
from varigraph.prediction.checks import check_nodes
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
from varigraph.prediction.first_order.shares import NoiseRoot, from_features, from_masks
from varigraph.prediction.linearised import Linearised, linearised
from varigraph.prediction.logits import CorrelatedLogits, answer, with_sampled_masks
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
    whole, masks_only = linearised(question), linearised(question.only("weights"))
    rows = check_nodes(question.nodes, len(whole.output))
    every = torch.arange(len(whole.output), device=whole.output.mean.device)
    logits = _Network(question, whole, masks_only).logits(every if rows is None else rows)
    return answer(with_sampled_masks(logits, question), question, method="first-order")


@dataclass(eq=False)
class _Network:
    """A linearised network and what its sources do in it."""

    question: Question
    whole: Linearised
    masks_only: Linearised

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
        wanted = {id(drop.value) for drop in self.whole.tape.drops}
        wanted |= {id(coin_sum.entry.value) for coin_sum in self.sums}
        root = self._root(rows)
        blocks = [self._block(block, wanted, root) for block in self._blocks(rows)]
        means, shares = zip(*blocks, strict=True)
        return CorrelatedLogits(
            torch.cat(means), {part: torch.cat([share[part] for share in shares]) for part in PARTS}
        )

    def _blocks(self, rows: Tensor) -> Iterator[Tensor]:
        output, tape = self.whole.output, self.whole.tape
        widest = max(value.value.mean.shape[1] for value in tape.entries[1:])
        numbers = output.mean.shape[1] * widest
        return row_blocks([sums_on_the_way(tape, output)], rows, numbers, self.question.memory)

    def _root(self, rows: Tensor) -> NoiseRoot | None:
        """The noise's root, from the responses of some nodes; None where a closed form does."""
        if isinstance(self.whole.output, Affine) or not bool(self.question.x.var.any()):
            return None
        some = rows[:: max(1, len(rows) // SAMPLE)]
        parts = [self.responses(block, set()) for block in self._blocks(some)]
        return NoiseRoot.of(parts)

    def _block(
        self, rows: Tensor, wanted: set[int], root: NoiseRoot | None
    ) -> tuple[Tensor, dict[str, Tensor]]:
        whole, question = self.whole, self.question
        responses = self.responses(rows, wanted)
        none = torch.zeros_like(
            whole.output.mean[rows][:, :, None] @ whole.output.mean[rows][:, None]
        )
        shares = dict.fromkeys(PARTS, none)
        mean = whole.output.mean[rows]
        if isinstance(whole.output, Affine):
            shares["features"] = whole.output.covariance[rows]
        elif root is not None:
            shares["features"] = from_features(responses, root)
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
        return mean, shares
