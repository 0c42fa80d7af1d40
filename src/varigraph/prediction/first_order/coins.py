"""How outputs respond to the coins of uncertain links, and to noise lost with a message."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from varigraph.moments.affine import Affine
from varigraph.moments.cotangents import Cotangents, row_slices
from varigraph.moments.gaussian import Gaussian
from varigraph.moments.links import Moved, Rest, Seen
from varigraph.moments.links_left import KEPT
from varigraph.moments.neighbours import Neighbours
from varigraph.moments.tape import Entry, Tape
from varigraph.prediction.first_order.ends import Ends
from varigraph.prediction.first_order.responses import Responses, all_sums
from varigraph.prediction.first_order.row_costs import (
    WALK,
    WIDEST,
    RowCosts,
    largest_of,
    one_sum,
    ones,
)
from varigraph.sparse import Sparse


@dataclass(frozen=True, eq=False)
class CoinSum:
    """A sum over uncertain links: what each of its messages carries.

    Args:
        tape: record of the pass.
        entry: the sum's entry on it.
        messages: the value that is summed.
        neighbours: the links.
        all_ends: responses at the ends of links, of all sums.
    """

    tape: Tape
    entry: Entry
    messages: Gaussian
    neighbours: Neighbours
    all_ends: Ends

    @cached_property
    def ends(self) -> tuple[Tensor, Tensor] | None:  # [pairs, features] each
        """Response of the messages at both ends of each link to its coin."""
        return self.all_ends.of(self.messages, self.neighbours)

    @cached_property
    def twice(self) -> Tensor:  # [pairs, features]
        r""":math:`D_e[\delta]`: what weights and messages do together, as a coin moves both."""
        none = self.messages.mean.new_zeros(1, 1)
        links = len(self.neighbours.source), self.messages.mean.shape[1]
        return none.expand(links) if self.ends is None else self.neighbours.again(*self.ends)

    @cached_property
    def arriving(self) -> Tensor:  # [pairs, features]
        r"""Each message as it is where its link is there: :math:`m_j + (1 - p) \delta_j`."""
        n = self.neighbours
        assert n.prob is not None
        sent = self.messages.mean[n.source]
        return sent if self.ends is None else sent + (1 - n.prob)[:, None] * self.ends[1]

    @cached_property
    def own(self) -> Tensor:  # [pairs, features]
        r"""What a link's coin moves beside what arrives.

        A coin times itself is the coin: on a walk i–j–i the same coin occurs twice, and what it
        carries counts once. As :math:`\delta_j` is among what arrives, the walk that goes through
        the message's own response, :math:`E[S] \delta_j`, is taken off.
        """
        n = self.neighbours
        assert n.prob is not None
        own = (1 - 2 * n.prob)[:, None] * self.twice
        if self.ends is not None:
            own = own - (n.weight * (1 - n.prob))[:, None] * self.ends[1]
        if n.sending is None:
            return own
        # What goes over the coin's own link is known exactly where it arrives.
        same, back = n.ways_back(n)
        sent = n.sending.values * torch.where(same, n.of_degree[back], 0)
        message = self.messages.mean[n.source]
        if self.ends is not None:
            message = message + (1 - 2 * n.prob)[:, None] * self.ends[1]
        return own - sent[:, None] * message

    @cached_property
    def shift(self) -> Tensor:  # [nodes, features]
        r"""What that adds to the mean: :math:`\sum p (1 - p) D_e[\delta]`."""
        n = self.neighbours
        assert n.prob is not None
        total = n.weight.new_zeros(n.nodes, self.twice.shape[1])
        for some in row_slices(len(self.twice), self.twice.shape[1], self.twice.device):
            part = n.toss[some, None] * self.twice[some]
            total.index_add_(0, n.target[some], part)
        if n.sending is None or self.ends is None:
            return total
        here, there = ((n.toss * n.of_degree)[:, None] * end for end in self.ends)
        moved = torch.zeros_like(total).index_add_(0, n.target, here)
        back = torch.zeros_like(total).index_add_(0, n.target, n.sending.values[:, None] * there)
        return total + n.sending @ moved - back


def coin_sums(tape: Tape) -> list[CoinSum]:
    """All sums of a pass that have coins."""
    ends = Ends(tape)
    return [
        CoinSum(tape, entry, messages, neighbours, ends)
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
            at_ends = 8 if len(before) > 1 else 3
            total += size * item * (at_ends * len(neighbours.source) + nodes * (2 + 3 * returned))
            total += 0 if isinstance(messages, Affine) else 6 * nodes * size * min(size, 32) * item
            before.append(size if isinstance(messages, Affine) else 0)
            total += KEPT if neighbours.ties_messages and len(before) == 2 else 0
    return total


def bytes_of_walks(costs: RowCosts, sums: Sequence[CoinSum]) -> Tensor:  # [nodes]
    """Bytes for the response to every coin, and for the noise that coins remove."""
    classes, item = costs.output.mean.shape[1], costs.output.mean.element_size()
    met = 3 * classes * item + 2 * classes**2 * item + WALK
    kept, work = [costs.output.mean.new_zeros(())], [torch.zeros(())]
    for each in sums:
        value, links, width = each.entry.value, each.neighbours, each.messages.mean.shape[1]
        walks = costs.steps(value, links.expected)
        kept.append(walks * met)
        work.append(walks * (classes + 2) * width * item)
        work.append(costs.products(value, width * min(width, WIDEST)))
        if links.ties_messages:  # in double precision
            kept.append(walks * 8 * (12 * classes + 4 * classes**2))
        if links.sending is not None:
            beyond = one_sum(links.expected, ones(links.nodes, costs.output.mean))
            far = costs.walks(value, one_sum(links.sending, beyond))
            far = far.clamp_max(len(links.source))
            kept.append(far * met)
            numbers = classes * width * (walks + (far if each is not sums[0] else 0))
            work.append(3 * numbers * item)
    return largest_of(work) + torch.stack(torch.broadcast_tensors(*kept)).sum(0)


def from_coins(
    responses: Responses, sums: list[CoinSum], prob: Tensor, rows: int
) -> Tensor:  # [coins] -> [rows, outputs, outputs]
    r""":math:`\sum_k p_k (1 - p_k)\, s_{uk} s_{uk}'`, the response s summed over all layers.

    With what coins cause together where they share a divisor.
    """
    moved, rest = coin_slopes(responses, sums, prob, rows)
    spread = (prob * (1 - prob)).to(moved.slope)[moved.coin]
    squares = (spread[:, None] * moved.slope)[:, :, None] * moved.slope[:, None, :]
    total = squares.new_zeros(rows, *squares.shape[1:])
    return total.index_add_(0, moved.row, squares) + rest


def coin_slopes(
    responses: Responses, sums: list[CoinSum], prob: Tensor, rows: int
) -> tuple[Moved, Tensor]:  # [coins] -> [rows, outputs, outputs]
    """Responses to each coin, summed over all layers, and what coins cause only together."""
    keys, slopes, rest = [], [], torch.zeros(())
    for neighbours, seen in _seen(responses, sums, rows):
        for part in neighbours.to_coins(seen):
            if isinstance(part, Rest):
                rest = rest + part.covariance
            else:
                keys.append(part.row * len(prob) + part.coin)
                slopes.append(part.slope)
    for coin_sum in sums:
        pairs = responses.of.get(coin_sum.entry.value.number)
        if pairs is not None and coin_sum.neighbours.sending is not None:
            part = _by_degrees(pairs, coin_sum, coin_sum.neighbours.sending)
            keys.append(part.row * len(prob) + part.coin)
            slopes.append(part.slope)
    met, place = torch.unique(torch.cat(keys), return_inverse=True)
    flat = torch.cat(slopes)
    slope = flat.new_zeros(len(met), flat.shape[1]).index_add_(0, place, flat)
    return Moved(met // len(prob), met % len(prob), slope), rest


def _seen(
    responses: Responses, sums: list[CoinSum], rows: int
) -> Iterator[tuple[Neighbours, Seen]]:
    """What outputs see of single messages, together for all sums over the same links."""
    by_links: dict[Neighbours, list[CoinSum]] = {}
    for coin_sum in sums:
        by_links.setdefault(coin_sum.neighbours, []).append(coin_sum)
    for neighbours, same in by_links.items():
        met = [(each, responses.of.get(each.entry.value.number)) for each in same]
        parts = [_messages(pairs, each) for each, pairs in met if pairs is not None]
        if parts:
            keys, values, own = (torch.cat(part) for part in zip(*parts, strict=True))
            key, place = torch.unique(keys, return_inverse=True)
            value, own = (
                each.new_zeros(len(key), each.shape[1]).index_add_(0, place, each)
                for each in (values, own)
            )
            links = len(neighbours.source)
            yield neighbours, Seen(key // links, key % links, value, own, rows)


def _messages(pairs: Cotangents, coin_sum: CoinSum) -> tuple[Tensor, Tensor, Tensor]:
    """Keys (row, link) and what is seen of each message of one sum, ``[walks, outputs]``."""
    neighbours = coin_sum.neighbours
    assert neighbours.coin_of is not None
    asked, link = neighbours.expected.walks(pairs.column)
    if not neighbours.ties_messages:
        uncertain = neighbours.coin_of[link] >= 0
        asked, link = asked[uncertain], link[uncertain]
    seen = pairs.values[asked]
    value = torch.einsum("woh,wh->wo", seen, coin_sum.arriving[link])
    own = torch.einsum("woh,wh->wo", seen, coin_sum.own[link])
    return pairs.row[asked] * len(neighbours.source) + link, value, own


def _by_degrees(pairs: Cotangents, coin_sum: CoinSum, sending: Sparse) -> Moved:
    """A coin changes the degree of a node, and with it all that the node sends to others."""
    n, messages = coin_sum.neighbours, coin_sum.messages.mean
    assert n.coin_of is not None
    assert n.prob is not None
    senders = pairs.through(sending)
    value = torch.einsum("poh,ph->po", senders.values, messages[senders.column])
    asked, link = n.expected.walks(senders.column)
    asked, link = asked[n.tossed[link]], link[n.tossed[link]]
    slope = value[asked]
    if coin_sum.ends is not None:
        more = (1 - 2 * n.prob[link])[:, None] * coin_sum.ends[0][link]
        slope = slope + torch.einsum("woh,wh->wo", senders.values[asked], more)
    return Moved(senders.row[asked], n.coin_of[link], n.of_degree[link, None] * slope)


def shift_of_mean(responses: Responses, sums: list[CoinSum]) -> Tensor | float:
    """What the walks that count once add to the mean of the outputs, ``[rows, outputs]``."""
    total: Tensor | float = 0.0
    for coin_sum in sums:
        pairs = responses.of.get(coin_sum.entry.value.number)
        if pairs is not None:
            moved = (pairs.values @ coin_sum.shift[pairs.column][:, :, None]).squeeze(-1)
            total = total + pairs.sum_rows(moved)
    return total
