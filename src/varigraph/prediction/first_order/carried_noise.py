"""Noise that is carried over uncertain links: lost where a coin removes its message."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from varigraph.moments.affine import Affine
from varigraph.moments.gaussian import Gaussian
from varigraph.moments.pairs import Pairs
from varigraph.moments.sparse import Sparse
from varigraph.moments.tape import Tape
from varigraph.prediction.first_order.coin_responses import CoinSum
from varigraph.prediction.first_order.responses import Responses, walk_back
from varigraph.prediction.first_order.row_costs import WIDEST, RowCosts
from varigraph.prediction.first_order.share import weighted_gram
from varigraph.prediction.first_order.shares import NoiseRoot, from_features
from varigraph.prediction.needs import Budget


@dataclass(frozen=True, eq=False)
class CarriedNoise:
    r"""An uncorrelated source at every sum over links: :math:`\sum_j Var[S_{ij}]\,Cov(m_j)`.

    A message is lost with its noise. To first order in the coins that is not seen, because the
    noise has mean zero; its variance is this further source, booked under interactions.

    Args:
        parts: covariances as ``[nodes, 1, 1]`` times ``[features, features]``, or one for each
            node, ``[nodes, features, features]``.
        single: what is added on the diagonal, ``[nodes, features]``.
    """

    parts: list[tuple[Tensor, Tensor]]
    single: Tensor

    @property
    def any(self) -> bool:
        """Whether there is noise to carry."""
        return bool(self.single.any()) or any(bool(s.any() & m.any()) for s, m in self.parts)

    def seen(self, pairs: Pairs) -> Tensor:  # [rows, outputs, outputs]
        """Covariance that the source causes in the outputs."""
        total = weighted_gram(pairs, self.single)
        for scale, matrix in self.parts:
            left = pairs.values @ (matrix[pairs.column] if matrix.dim() == 3 else matrix)
            total = total + pairs.sum_rows(scale[pairs.column] * left @ pairs.values.mT)
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
    return CarriedNoise([(torch.ones_like(spread[:, :1, :1]), spread)], by_noises)


def _silent(tape: Tape) -> bool:
    """Whether the features have no noise."""
    features = tape.entries[0].value
    return isinstance(features, Affine) and features.noise.silent


def _scaled_parts(coin: Sparse, messages: Affine) -> list[tuple[Tensor, Tensor]]:
    """The same for messages linear in the features: a number per node times fixed matrices."""
    noise, parts = messages.noise, []
    for a, left in messages.maps.items():
        for b, right in messages.maps.items():
            scale = coin @ noise.overlap(a, b)[:, None]
            parts.append((scale[:, :, None], (left * noise.feature) @ right.T))
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
