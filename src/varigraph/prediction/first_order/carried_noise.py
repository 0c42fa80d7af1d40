"""Noise that messages carry, and that is lost with them where a coin takes a link away."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from varigraph.moments.affine import Affine
from varigraph.moments.cotangents import Cotangents, row_slices
from varigraph.moments.gaussian import Gaussian
from varigraph.moments.tape import Tape
from varigraph.prediction.first_order.coins import CoinSum, bytes_of_walks, from_coins
from varigraph.prediction.first_order.noise_root import NoiseRoot, from_features
from varigraph.prediction.first_order.responses import (
    Responses,
    all_sums,
    sums_on_the_way,
    walk_back,
)
from varigraph.prediction.first_order.row_costs import WIDEST, RowCosts
from varigraph.prediction.first_order.shares import weighted_gram
from varigraph.prediction.memory import Budget
from varigraph.sparse import Sparse


def returning_noise(
    tape: Tape, coin_sum: CoinSum
) -> Iterator[tuple[Affine, Tensor]]:  # [nodes, features, features of the earlier messages]
    r"""Noise that walks i–j–i carry more than a product of means, for each earlier sum.

    :math:`K_i = \sum_j p (1 - p) w_{ij} w_{ji} D_j`, with the map D from the earlier sum at j to
    the messages of this one. Values still linear in the features have it among their paths.
    """
    outer = coin_sum.neighbours
    if isinstance(coin_sum.entry.value, Affine):
        return
    for entry, messages, inner in all_sums(tape):
        if not isinstance(messages, Affine):
            continue
        more = outer.returned(inner)
        local = _local_map(tape, entry.value, coin_sum.messages) if bool(more.any()) else None
        if local is not None:
            matrix = Sparse(outer.target, outer.source, more, (outer.nodes, outer.nodes))
            yield messages, (matrix @ local.flatten(1)).view_as(local)


def _local_map(tape: Tape, start: Gaussian, end: Gaussian) -> Tensor | None:
    """Response of one value to another at the same node, ``[nodes, end, start]``."""
    nodes, size = start.mean.shape
    if not leads_to(tape, start, end):
        return None
    found = start.mean.new_empty(nodes, end.mean.shape[1], size)
    eye = torch.eye(size, dtype=found.dtype, device=found.device)
    every = torch.arange(nodes, device=eye.device)
    for some in row_slices(nodes, size * size, found.device):
        each = every[some].repeat_interleave(size)
        moved = push(tape, start, end, eye.repeat(len(each) // size, 1), each)
        found[some] = moved.view(-1, size, found.shape[1]).mT
    return found


def leads_to(tape: Tape, start: Gaussian, end: Gaussian) -> bool:
    """Whether a value goes into another without further sums."""
    reached = {start.number}
    for entry in tape.entries:
        for parent, operator in entry.parents:
            if parent.number in reached and operator.local:
                reached.add(entry.value.number)
    return end.number in reached


def push(
    tape: Tape, start: Gaussian, end: Gaussian, tangents: Tensor, nodes: Tensor
) -> Tensor:  # [m, features of start] -> [m, features of end]
    """Carry tangents at given nodes forward from one value to another, without further sums."""
    reached: dict[int, Tensor] = {start.number: tangents}
    for entry in tape.entries:
        for parent, operator in entry.parents:
            known = reached.get(parent.number)
            if known is None:
                continue
            moved = operator.push(known, nodes, entry.value.mean.shape[1])
            if moved is None:
                continue
            before = reached.get(entry.value.number)
            reached[entry.value.number] = moved if before is None else before + moved
        if entry.value is end:
            break
    return reached[end.number]


@dataclass(frozen=True, eq=False)
class CarriedNoise:
    r"""An uncorrelated source at every sum over links: :math:`\sum_j Var[S_{ij}]\,Cov(m_j)`.

    A message is lost with its noise. To first order in the coins that is not seen, because the
    noise has mean zero; its variance is this further source, booked under interactions.

    Args:
        parts: covariances :math:`L\,\mathrm{diag}(n_u)\,R'`, as n, L and R. With one number n for
            each node, ``[nodes, 1]``, L is ``[features, features]`` or one for each node, and there
            is no R; else n has a number for each feature that L and R lead from.
        single: what is added on the diagonal, ``[nodes, features]``.
    """

    parts: list[tuple[Tensor, Tensor, Tensor | None]]
    single: Tensor

    @property
    def any(self) -> bool:
        """Whether there is noise to carry."""
        return bool(self.single.any()) or any(bool(n.any() & m.any()) for n, m, _ in self.parts)

    def seen(self, pairs: Cotangents) -> Tensor:  # [rows, outputs, outputs]
        """Covariance that the source causes in the outputs."""
        total = weighted_gram(pairs, self.single)
        for scale, left, right in self.parts:
            moved = pairs.values @ (left[pairs.column] if left.dim() == 3 else left)
            other = pairs.values if right is None else pairs.values @ right
            total = total + pairs.sum_rows((moved * scale[pairs.column][:, None]) @ other.mT)
        return total


def carried_noise(
    tape: Tape, alone: Sequence[Mapping[int, Tensor]], coin_sum: CoinSum, budget: Budget
) -> CarriedNoise:
    """The source at one sum.

    Args:
        tape: record of the pass.
        alone: variance of messages due to sources of independent noise, each alone, by their
            places on the tape.
        coin_sum: the sum.
        budget: what memory there is.
    """
    coin, messages = coin_sum.neighbours.coin, coin_sum.messages
    assert coin is not None
    place = next(i for i, entry in enumerate(tape.entries) if entry.value is messages)
    none = torch.zeros_like(messages.mean[:1, :1]).expand_as(messages.mean)
    found = [messages_of[place] for messages_of in alone if place in messages_of]
    by_noises = coin @ (sum(found[1:], found[0]) if found else none)
    if isinstance(messages, Affine):
        return CarriedNoise(_scaled_parts(coin, messages), by_noises)
    if messages.mean.shape[1] > WIDEST:
        return CarriedNoise([], coin @ messages.var)
    if _silent(tape):
        return CarriedNoise([], by_noises)
    full = _by_features(tape, messages, budget)
    spread = (coin @ full.flatten(1)).view_as(full)
    return CarriedNoise([(torch.ones_like(spread[:, 0, :1]), spread, None)], by_noises)


def _silent(tape: Tape) -> bool:
    """Whether the features have no noise."""
    features = tape.entries[0].value
    return isinstance(features, Affine) and features.noise.silent


def _scaled_parts(
    coin: Sparse, messages: Affine
) -> list[tuple[Tensor, Tensor, Tensor | None]]:  # as in CarriedNoise
    """The same for messages linear in the features: numbers per node between fixed matrices."""
    noise = messages.noise
    parts: list[tuple[Tensor, Tensor, Tensor | None]] = []
    for a, left in messages.maps.items():
        for b, right in messages.maps.items():
            scale, scaled = coin @ noise.overlap(a, b), left * noise.feature
            together = (scaled, right) if noise.by_feature else (scaled @ right.T, None)
            parts.append((scale, *together))
    return parts


def _by_features(tape: Tape, value: Gaussian, budget: Budget) -> Tensor:  # [nodes, n, n]
    """Covariance of a value at each node due to the noise of the features."""
    costs = RowCosts(tape, value, set())
    cost = torch.maximum(
        costs.walking[0], costs.walking[1] + costs.from_features(costs.largest_rank)
    )
    every = torch.arange(len(value), device=value.mean.device)

    def responses() -> Iterator[Responses]:
        blocks = budget.blocks(every, cost)
        return (walk_back(tape, value, block, until=set()) for block in blocks)

    root = NoiseRoot.of(responses(), nodes=len(value))
    size, first = value.mean.shape[1], 0
    found = value.mean.new_empty(len(value), size, size)
    for some in responses():  # anew: together they would take more than a block
        part = from_features(some, root)
        found[first : (first := first + len(part))] = part
    return found


def from_carried_noise(responses: Responses, sources: list[tuple[CoinSum, CarriedNoise]]) -> Tensor:
    """Covariance of the outputs due to noise that coins may remove, over all sums."""
    total = torch.zeros(())
    for coin_sum, source in sources:
        pairs = responses.of.get(coin_sum.entry.value.number)
        if pairs is not None:
            total = total + source.seen(pairs)
    return total


#: Messages that so many sums lead to have the covariance due to coins computed, and no others: the
#: walks of every node, not only of those that are asked for, would take too long.
FARTHEST = 2


def lost_coins(
    tape: Tape, coin_sum: CoinSum, sums: list[CoinSum], prob: Tensor, budget: Budget
) -> CarriedNoise | None:
    r"""What two coins do together, one of which takes away what the other has moved.

    .. math::
        \sum_j Var[S_{ij}] \left(Cov(m_j) - p_j (1 - p_j)\,\delta_j \delta_j'\right)

    with the covariance of messages due to coins, that of their own link taken off: a further
    source at each node, without the correlation between nodes.
    """
    messages, n = coin_sum.messages, coin_sum.neighbours
    if coin_sum.ends is None or messages.mean.shape[1] > WIDEST or n.coin is None:
        return None
    if len(sums_on_the_way(tape, messages)) > FARTHEST:
        return None
    full = _by_coins(tape, messages, sums, prob, budget)
    spread = (n.coin @ full.flatten(1)).view_as(full)
    there, chance = coin_sum.ends[1], n.toss
    for some in row_slices(len(there), there.shape[1] ** 2, there.device):
        own = (n.coin.values * chance)[some, None, None] * there[some, :, None] * there[some, None]
        spread.index_add_(0, n.target[some], -own)
    none = torch.zeros_like(messages.mean[:1, :1]).expand_as(messages.mean)
    return CarriedNoise([(torch.ones_like(spread[:, 0, :1]), spread, None)], none)


def _by_coins(
    tape: Tape, value: Gaussian, sums: list[CoinSum], prob: Tensor, budget: Budget
) -> Tensor:  # [nodes, n, n]
    """Covariance of a value at each node due to coins."""
    wanted = {each.entry.value.number for each in sums}
    costs = RowCosts(tape, value, wanted)
    before = [each for each in sums if each.entry.value.number in costs.visited]
    walking, left = costs.walking
    cost = torch.maximum(walking, left + bytes_of_walks(costs, before))
    every = torch.arange(len(value), device=value.mean.device)
    size, first = value.mean.shape[1], 0
    found = value.mean.new_empty(len(value), size, size)
    for block in budget.blocks(every, cost):
        responses = walk_back(tape, value, block, until=wanted)
        part = from_coins(responses, before, prob, len(block))
        found[first : (first := first + len(part))] = part
    return found
