"""How outputs respond to the coins of uncertain links, and to noise lost with a message."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from varigraph.moments.affine import Affine
from varigraph.moments.cotangents import Cotangents, row_slices
from varigraph.moments.gaussian import Gaussian
from varigraph.moments.neighbours import Neighbours
from varigraph.moments.tape import Entry, Tape
from varigraph.prediction.first_order.noise_root import NoiseRoot, from_features
from varigraph.prediction.first_order.responses import Responses, all_sums, walk_back
from varigraph.prediction.first_order.shares import weighted_gram
from varigraph.prediction.memory import WIDEST, Budget, RowCosts
from varigraph.sparse import Sparse


@dataclass(frozen=True, eq=False)
class CoinSum:
    """A sum over uncertain links: what each of its messages carries.

    Args:
        tape: record of the pass.
        entry: the sum's entry on it.
        messages: the value that is summed.
        neighbours: the links.
    """

    tape: Tape
    entry: Entry
    messages: Gaussian
    neighbours: Neighbours

    @cached_property
    def again(self) -> Tensor:  # [pairs, features]
        """What of each message has come over the same link one sum before."""
        return _again(self.tape, self.messages, self.neighbours)

    def carried(self, links: Tensor) -> Tensor:  # [m] -> [m, features]
        r"""Response of the sum to some coins: :math:`w_{ij} (\mu_j - (2 p - 1) r_{ij})`.

        A coin times itself is the coin: on a walk i–j–i the same coin occurs twice, and what it
        carries, r, counts once. Its slope is then 1, not the 2p of a product of two.
        """
        n = self.neighbours
        assert n.prob is not None
        once = (2 * n.prob[links] - 1)[:, None] * self.again[links]
        return n.weight[links, None] * (self.messages.mean[n.source[links]] - once)

    @cached_property
    def shift(self) -> Tensor:  # [nodes, features]
        r"""What counting such walks once adds to the mean: :math:`\sum p (1 - p) w_{ij} r_{ij}`."""
        n = self.neighbours
        assert n.prob is not None
        more = n.prob * (1 - n.prob) * n.weight
        total = more.new_zeros(n.nodes, self.again.shape[1])
        for some in row_slices(*self.again.shape):
            total.index_add_(0, n.target[some], more[some, None] * self.again[some])
        return total


def coin_sums(tape: Tape) -> list[CoinSum]:
    """All sums of a pass that have coins."""
    return [
        CoinSum(tape, entry, messages, neighbours)
        for entry, messages, neighbours in all_sums(tape)
        if neighbours.coin_of is not None
    ]


def bytes_of_coins(tape: Tape) -> int:
    """What is prepared for the coins of a pass, at most."""
    total, before = 0, [0]
    for entry, messages, neighbours in all_sums(tape):
        nodes, size = messages.mean.shape
        item = messages.mean.element_size()
        if neighbours.coin_of is not None:
            returned = 0 if isinstance(entry.value, Affine) else sum(before)
            total += size * item * (len(neighbours.source) + nodes * (2 + 3 * returned))
            total += 0 if isinstance(messages, Affine) else 3 * nodes * size * min(size, 32) * item
            before.append(size if isinstance(messages, Affine) else 0)
    return total


def _again(tape: Tape, messages: Gaussian, neighbours: Neighbours) -> Tensor:
    """Part of each message j -> i that came from i over the same link in the sum before."""
    links, width = len(neighbours.source), messages.mean.shape[1]
    total = messages.mean.new_zeros(1, 1).expand(links, width)
    for entry, before, inner in all_sums(tape):
        if inner.coin_of is None or not leads_to(tape, entry.value, messages):
            continue
        total = total.contiguous()  # written to from here on
        weight = neighbours.returning(inner)
        for some in row_slices(links, before.mean.shape[1]):
            sent = weight[some, None] * before.mean[neighbours.target[some]]
            total[some] += push(tape, entry.value, messages, sent, neighbours.source[some])
    return total


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
    for some in row_slices(nodes, size * size):
        each = every[some].repeat_interleave(size)
        moved = push(tape, start, end, eye.repeat(len(each) // size, 1), each)
        found[some] = moved.view(-1, size, found.shape[1]).mT
    return found


def leads_to(tape: Tape, start: Gaussian, end: Gaussian) -> bool:
    """Whether a value goes into another without further sums."""
    reached = {start.number}
    for entry in tape.entries:
        for parent, operator in entry.parents:
            if parent.number in reached and operator.matrix is None:
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


def from_coins(
    responses: Responses, sums: list[CoinSum], prob: Tensor, rows: int
) -> Tensor:  # [coins] -> [rows, outputs, outputs]
    r""":math:`\sum_k p_k (1 - p_k)\, s_{uk} s_{uk}'`, the response s summed over all layers."""
    keys, slopes = [], []
    for coin_sum in sums:
        pairs = responses.of.get(coin_sum.entry.value.number)
        if pairs is not None:
            key, slope = _slopes(pairs, coin_sum, len(prob))
            keys.append(key)
            slopes.append(slope)
    met, place = torch.unique(torch.cat(keys), return_inverse=True)
    flat = torch.cat(slopes)
    slope = flat.new_zeros(len(met), flat.shape[1]).index_add_(0, place, flat)
    coin = met % len(prob)
    spread = (prob * (1 - prob)).to(slope)[coin]
    squares = (spread[:, None] * slope)[:, :, None] * slope[:, None, :]
    total = squares.new_zeros(rows, *squares.shape[1:])
    return total.index_add_(0, met // len(prob), squares)


def _slopes(pairs: Cotangents, coin_sum: CoinSum, coins: int) -> tuple[Tensor, Tensor]:
    """Keys (row, coin) and slopes ``[walks, outputs]`` through one sum."""
    neighbours = coin_sum.neighbours
    assert neighbours.coin_of is not None
    asked, entry = neighbours.expected.walks(pairs.column)
    uncertain = neighbours.coin_of[entry] >= 0
    asked, entry = asked[uncertain], entry[uncertain]
    slope = torch.einsum("woh,wh->wo", pairs.values[asked], coin_sum.carried(entry))
    return pairs.row[asked] * coins + neighbours.coin_of[entry], slope


def shift_of_mean(responses: Responses, sums: list[CoinSum]) -> Tensor | float:
    """What the walks that count once add to the mean of the outputs, ``[rows, outputs]``."""
    total: Tensor | float = 0.0
    for coin_sum in sums:
        pairs = responses.of.get(coin_sum.entry.value.number)
        if pairs is not None:
            moved = (pairs.values @ coin_sum.shift[pairs.column][:, :, None]).squeeze(-1)
            total = total + pairs.sum_rows(moved)
    return total


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

    def seen(self, pairs: Cotangents) -> Tensor:  # [rows, outputs, outputs]
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
