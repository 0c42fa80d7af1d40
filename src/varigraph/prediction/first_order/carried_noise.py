"""Noise that is carried over uncertain links: lost where a coin removes its message."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from varigraph.moments.affine import Affine
from varigraph.moments.gaussian import Gaussian
from varigraph.moments.pairs import Pairs, row_blocks
from varigraph.moments.sparse import Sparse
from varigraph.moments.tape import Tape
from varigraph.prediction.first_order.coin_responses import CoinSum
from varigraph.prediction.first_order.responses import Responses, sums_on_the_way, walk_back
from varigraph.prediction.first_order.shares import NoiseRoot, from_features, weighted_gram

#: Messages up to this width have their covariance computed; wider ones count as uncorrelated.
WIDEST = 32


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

    def seen(self, pairs: Pairs) -> Tensor:  # [rows, outputs, outputs]
        """Covariance that the source causes in the outputs."""
        total = weighted_gram(pairs, self.single)
        for scale, matrix in self.parts:
            left = pairs.values @ (matrix[pairs.column] if matrix.dim() == 3 else matrix)
            total = total + pairs.sum_rows(scale[pairs.column] * left @ pairs.values.mT)
        return total


def carried_noise(tape: Tape, masks_only: Tape, coin_sum: CoinSum, *, memory: int) -> CarriedNoise:
    """The source at one sum.

    Args:
        tape: record of the pass.
        masks_only: record of the pass in which only dropout is random.
        coin_sum: the sum.
        memory: bound in bytes.
    """
    coin, messages = coin_sum.neighbours.coin, coin_sum.messages
    assert coin is not None
    place = next(i for i, entry in enumerate(tape.entries) if entry.value is messages)
    by_masks = coin @ masks_only.entries[place].value.var
    if isinstance(messages, Affine):
        return CarriedNoise(_scaled_parts(coin, messages), by_masks)
    if messages.mean.shape[1] > WIDEST:
        return CarriedNoise([], coin @ messages.var)
    full = _by_features(tape, messages, memory)
    spread = (coin @ full.flatten(1)).view_as(full)
    return CarriedNoise([(torch.ones_like(spread[:, :1, :1]), spread)], by_masks)


def _scaled_parts(coin: Sparse, messages: Affine) -> list[tuple[Tensor, Tensor]]:
    """The same for messages linear in the features: a number per node times fixed matrices."""
    noise, parts = messages.noise, []
    for a, left in messages.maps.items():
        for b, right in messages.maps.items():
            scale = coin @ noise.overlap(a, b)[:, None]
            parts.append((scale[:, :, None], (left * noise.feature) @ right.T))
    return parts


def _by_features(tape: Tape, value: Gaussian, memory: int) -> Tensor:  # [nodes, n, n]
    """Covariance of a value at each node due to the noise of the features."""
    every = torch.arange(len(value), device=value.mean.device)
    size = value.mean.shape[1]
    blocks = list(row_blocks([sums_on_the_way(tape, value)], every, 64 * size, memory))
    responses = [walk_back(tape, value, block, until=set()) for block in blocks]
    root = NoiseRoot.of(responses)
    return torch.cat([from_features(response, root) for response in responses])


def from_carried_noise(responses: Responses, sources: list[tuple[CoinSum, CarriedNoise]]) -> Tensor:
    """Covariance of the outputs due to noise that coins may remove, over all sums."""
    total = torch.zeros(())
    for coin_sum, source in sources:
        pairs = responses.of.get(id(coin_sum.entry.value))
        if pairs is not None:
            total = total + source.seen(pairs)
    return total
