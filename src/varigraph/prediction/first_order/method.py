"""``method="first-order"``: all correlations, to first order in every source."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property

import torch
from torch import Tensor

from varigraph.moments.affine import Affine
from varigraph.prediction.answer import answer_by_blocks
from varigraph.prediction.checks import check_nodes
from varigraph.prediction.first_order.bends import from_bends
from varigraph.prediction.first_order.carried_noise import (
    CarriedNoise,
    carried_noise,
    from_carried_noise,
)
from varigraph.prediction.first_order.coin_responses import (
    CoinSum,
    bytes_of_coins,
    coin_sums,
    from_coins,
    returning_noise,
    shift_of_mean,
)
from varigraph.prediction.first_order.masks_alone import MasksAlone
from varigraph.prediction.first_order.responses import Responses, walk_back
from varigraph.prediction.first_order.row_costs import RowCosts
from varigraph.prediction.first_order.shares import (
    NoiseRoot,
    from_masks,
    loses_much,
    sample_of,
    to_features,
)
from varigraph.prediction.linearised import Linearised, linearised
from varigraph.prediction.logits import Bent, CorrelatedLogits, diagonal, sampled_masks
from varigraph.prediction.needs import (
    SMALL_WORK,
    Budget,
    held_by,
    of_activations,
    of_answer,
    of_sampled_masks,
)
from varigraph.prediction.prediction import PARTS, Prediction
from varigraph.prediction.question import Question


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
    others = question.noisy or "links" in question.sources
    masks = MasksAlone.of(question) if question.masked and others else None
    network = _Network(question, linearised(question), masks)
    return answer_by_blocks(
        network.blocks(),
        len(network.rows),
        question,
        active=network.active,
        method="first-order",
        approximate=network.whole.approximate,
    )


@dataclass(eq=False)
class _Network:
    """A linearised network and what its sources do in it."""

    question: Question
    whole: Linearised
    alone: MasksAlone | None

    @cached_property
    def masks(self) -> MasksAlone:
        """What the masks of dropout do alone."""
        drops = self.whole.tape.drops
        return self.alone or MasksAlone([drop.added for drop in drops], {})

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
        question, coins = self.question, self.question.links
        there = {
            "features": question.noisy,
            "links": bool(self.sums) and coins is not None and _any_spread(coins.coins.prob),
            "weights": any(bool(added.any()) for added in self.masks.added),
        }
        alone = [part for part, is_there in there.items() if is_there]
        together = len(alone) > 1 or any(bool(source.any) for _, source in self.carried)
        return [*alone, "interactions"] if together else alone

    @cached_property
    def sums(self) -> list[CoinSum]:
        """Sums over uncertain links."""
        return coin_sums(self.whole.tape)

    @cached_property
    def carried(self) -> list[tuple[CoinSum, CarriedNoise]]:
        """What noise each of them carries."""
        tape = self.whole.tape
        return [(s, carried_noise(tape, self.masks, s, self.budget)) for s in self.sums]

    @cached_property
    def returns(self) -> list[tuple[CoinSum, Affine, Tensor]]:
        """What noise comes back to a node over the link that it went out on."""
        tape = self.whole.tape
        return [(s, leaf, m) for s in self.sums for leaf, m in returning_noise(tape, s)]

    @cached_property
    def root(self) -> NoiseRoot | None:
        """The noise's root, from the responses of some nodes; None where a closed form does."""
        if not self.bent:
            return None
        some = sample_of(self.rows)
        blocks = self.budget.blocks(some, self.costs.walking[0][some.cpu()])
        samples = (self.responses(block, set()) for block in blocks)
        return NoiseRoot.of(samples, nodes=len(self.whole.output))

    @cached_property
    def whole_root(self) -> NoiseRoot | None:
        """The same with nothing left out."""
        return None if self.root is None else replace(self.root, whole=True)

    @cached_property
    def rest(self) -> list[Tensor]:
        """What masks add beside that, because of the other sources."""
        pairs = zip(self.whole.tape.drops, self.masks.added, strict=True)
        return [drop.added - alone for drop, alone in pairs]

    @cached_property
    def sampled(self) -> Tensor | None:  # [rows, classes, classes]
        """The share of the weights by T masks, where that is asked for."""
        return sampled_masks(self.question)

    @cached_property
    def budget(self) -> Budget:
        """What there is room for; refused where it is not enough for what is always held."""
        output, tape, nodes = self.whole.output, self.whole.tape, len(self.rows)
        held = held_by(tape) + 2 * sum(added.nbytes for added in self.masks.added)
        held += of_answer(nodes, output) + of_sampled_masks(nodes, output, self.question)
        held += bytes_of_coins(tape) + SMALL_WORK
        if self.masks.messages:  # from a pass with a record of its own
            held += held_by(tape)
        budget = Budget(self.question, held)
        what, way = f"the layers and the answer of {nodes:,} nodes", of_activations(tape)
        budget.refuse_beyond(way, what, enough=lambda: float(self.cost(None).max()))
        return budget

    @cached_property
    def costs(self) -> RowCosts:
        """Bytes that each output node needs."""
        return RowCosts(self.whole.tape, self.whole.output, self.wanted)

    def cost(self, root: NoiseRoot | None) -> Tensor:  # [nodes]
        """Those bytes at the worst moment, with a root of the noise or with the largest."""
        costs, output = self.costs, self.whole.output
        rank = costs.largest_rank if root is None else root.rank
        noise = costs.from_noise(rank) if self.bent else torch.zeros(())
        masks, coins = costs.from_masks(self.whole.tape.drops), costs.from_coins(self.sums)
        work = torch.maximum(noise, torch.maximum(masks, coins))
        classes = output.mean.shape[1]
        results = 8 * classes**2 * (1 + classes if self.bent else 1)
        walking, left = costs.walking
        return torch.maximum(walking, left + work) + results * output.mean.element_size()

    @cached_property
    def bent(self) -> bool:
        """Whether the logits are not linear in noise that there is."""
        return self.question.noisy and not isinstance(self.whole.output, Affine)

    def responses(self, rows: Tensor, wanted: set[int]) -> Responses:
        """Responses of the outputs of some nodes, walks over one link and back included."""
        found = walk_back(self.whole.tape, self.whole.output, rows, until=wanted | self.returning)
        for coin_sum, leaf, matrix in self.returns:
            pairs = found.of.get(coin_sum.entry.value.number)
            if pairs is not None:
                more = pairs.with_values(pairs.values @ matrix[pairs.column])
                found.boundary.append((leaf, more))
        return found

    @cached_property
    def returning(self) -> set[int]:
        """Sums at which noise comes back."""
        return {coin_sum.entry.value.number for coin_sum, _, _ in self.returns}

    @cached_property
    def wanted(self) -> set[int]:
        """Values to which the response of the outputs is needed."""
        tape = self.whole.tape
        values = [drop.value for drop in tape.drops] + [s.entry.value for s in self.sums]
        if self.bent:
            values += [bend.value for bend in tape.bends]
        return {value.number for value in values}

    def blocks(self) -> Iterator[CorrelatedLogits]:
        """Mean and covariances, block by block."""
        done = 0
        for rows in self._rows_at_once(self.rows, self.root):
            block = self._block(rows)
            if self.sampled is not None:
                masks = self.sampled[done : done + len(rows)]
                block = replace(block, shares={**block.shares, "weights": masks})
            yield block
            done += len(rows)
            self.question.progress(done, len(self.rows))

    def _rows_at_once(self, rows: Tensor, root: NoiseRoot | None) -> Iterator[Tensor]:
        return self.budget.blocks(rows, self.cost(root)[rows.cpu()])

    def _block(self, rows: Tensor) -> CorrelatedLogits:
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
        whole, question = self.whole, self.question
        poor = torch.zeros(len(rows), dtype=torch.bool, device=rows.device)
        responses = self.responses(rows, self.wanted)
        mean, bent = whole.output.mean[rows], None
        shares = dict.fromkeys(PARTS, torch.zeros_like(mean[:, :, None] @ mean[:, None]))
        if isinstance(whole.output, Affine):
            shares["features"] = whole.output.covariance_of(rows)
        elif root is not None:
            noise = to_features(responses, root)
            straight = noise.gram(root.noise.node)
            poor = loses_much(responses, root, diagonal(straight))
            bent = Bent.of(straight, from_bends(whole.tape, responses, noise, root))
            shares["features"] = straight + bent.covariance
        drops, alone = whole.tape.drops, self.masks.added
        if drops:
            shares["weights"] = from_masks(responses, drops, alone)
            shares["interactions"] = from_masks(responses, drops, self.rest)
        if self.sums and question.links is not None:
            mean = mean + shift_of_mean(responses, self.sums)
            shares["links"] = from_coins(responses, self.sums, question.links.coins.prob, len(rows))
            carried = from_carried_noise(responses, self.carried)
            shares["interactions"] = shares["interactions"] + carried
        return CorrelatedLogits(mean, shares, bent), poor


def _any_spread(prob: Tensor) -> bool:  # [coins]
    return bool((prob * (1 - prob)).any())
