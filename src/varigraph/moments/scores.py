"""Scores of links that come from their ends: a sum over links as a response to nodes alone.

Attention makes a score of every link, shares of the scores, and a sum of values by these shares.
Followed step by step, responses would live on links; but every score looks at the two ends of its
link and nothing else, so that what the sum gets by way of the scores is a response to nodes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

import torch
from torch import Tensor

from varigraph.moments.attention import HeadJacobian, ScoreSum, WithinGroups, seen_by
from varigraph.moments.cotangents import Cotangents, row_slices
from varigraph.moments.gaussian import Gaussian
from varigraph.moments.propagation import current
from varigraph.moments.tape import Entry, Operator
from varigraph.sparse import Sparse

#: Slopes of scores that are held at most, in numbers.
MOST_SLOPES = 2**28


class _NotByEndsError(Exception):
    """A score that does more than look at the ends of its link."""


@dataclass(eq=False)
class _End:
    """How scores respond to one end of their links.

    Args:
        value: of the nodes.
        node: the end that each link looks at, ``[links]``.
        slopes: ``[some links, heads, features]`` each, or ``[.., heads, d]`` where all heads look
            at columns of their own.
        apart: whether they do.
    """

    value: Gaussian
    node: Tensor
    slopes: list[Tensor] = field(default_factory=list)
    apart: bool = True

    def seen(self, moved: Tensor) -> Tensor:  # [nodes, k, features] -> [links, k, heads]
        """How far scores move with the values."""
        parts, first = [], 0
        for slope in self.slopes:
            node = self.node[first : (first := first + len(slope))]
            parts.append(seen_by(slope, moved[node], apart=self.apart))
        return torch.cat(parts)


@dataclass(frozen=True, eq=False)
class ByScores:
    """How the weights of links come from the ends of these.

    Args:
        responses: of the sum that the weights are for.
        ends: what scores look at.
        steps: from the scores to the weights, link by link or within groups.
    """

    responses: list[tuple[Gaussian, Operator]]
    ends: list[_End]
    steps: list[Operator]

    def moved(self, of: Callable[[Gaussian], Tensor]) -> Tensor:  # -> [links, k, heads]
        """How far weights move, given how far values of nodes do, ``[nodes, k, features]``.

        The part that changes its sign with the noise: to first order, and as far as shares go.
        """
        seen = torch.stack([end.seen(of(end.value)) for end in self.ends]).sum(0)
        every = torch.arange(len(seen), device=seen.device)
        links = Cotangents(torch.zeros_like(every), every, seen, len(seen), 1)
        for step in self.steps:
            if isinstance(step, WithinGroups):
                moved = step.far(links.values)
            else:
                moved = step.forward(links, links, seen.shape[2])
            links = links.with_values(moved)
        return links.values


@dataclass(frozen=True, eq=False)
class Product:
    r"""What weights and values do together in :math:`y_u = \sum_e a_e x_{s(e)}`.

    .. math::
        q_u = \sum_e da_e\, dx_{s(e)} \qquad
        da = \tfrac12 \big(a(s + ds) - a(s - ds)\big)

    Both move with the same noise; as a response q is of second order, and not small where scores
    move by as much as 1. Shares do not go beyond 1 however far scores move.

    Args:
        value: y.
        sent: x, ``[nodes, heads * channels]``.
        sender: s, ``[links]``.
        group: u, ``[links]``.
        weights: a.
    """

    value: Gaussian
    sent: Gaussian
    sender: Tensor
    group: Tensor
    weights: ByScores

    def moved(self, of: Callable[[Gaussian], Tensor]) -> Tensor:  # -> [nodes, k, features]
        """q, given how far values of nodes move, ``[nodes, k, features]``."""
        sent, weights = of(self.sent), self.weights.moved(of)
        found = sent.new_zeros(len(self.value), *sent.shape[1:])
        for some in row_slices(len(self.sender), max(1, sent[:1].numel())):
            parts = sent[self.sender[some]].unflatten(2, (weights.shape[2], -1))
            found.index_add_(0, self.group[some], (parts * weights[some, ..., None]).flatten(2))
        return found

    @property
    def numbers(self) -> Iterator[Tensor]:
        """Tensors that it holds."""
        for end in self.weights.ends:
            yield from (end.node, *end.slopes)
        for step in self.weights.steps:
            yield from step.numbers
        yield from (self.sender, self.group)


def multiplied(product: Product) -> Gaussian:
    """The sum itself; what weights and values do together in it is noted."""
    tape = current().tape
    assert tape is not None  # without one there are no responses
    tape.products.append(product)
    return product.value


def responses_by_scores(
    weight: Gaussian,  # [links, heads]
    message: Tensor,  # [links, heads * channels]
    group: Tensor,  # [links]
    count: int,
) -> ByScores | None:
    r"""Responses of :math:`y_u = \sum_e m_e a_e` to the nodes that the weights a come from.

    .. math::
        dy_u = \sum_e m_e\, da_e
             = \sum_e a_e (m_e - \textstyle\sum_f a_f m_f)\, ds_e \qquad
        ds_e = k_e\, dx_{s(e)} + l_e\, dx_u

    The middle is that of a softmax over the links of u. What bends scores is left out: it is a
    second order of a second order.

    Args:
        weight: a, the weights of links.
        message: m, what is weighted.
        group: u, where each link ends.
        count: number of such nodes.

    Returns:
        None where weights depend on more than the ends of their links, or nothing is recorded.
    """
    tape = current().tape
    if tape is None:
        return None
    entries = {entry.value.number: entry for entry in tape.entries}
    noisy = {noise.value.number for noise in tape.noises}
    try:
        scores, message, steps = _before_shares(weight, message, group, entries, noisy)
        ends = _ends(scores, list(reversed(tape.entries)), noisy)
    except _NotByEndsError:
        return None
    responses = [(end.value, _operator(end, message, group, count)) for end in ends]
    return ByScores(responses, ends, steps)


def _before_shares(
    value: Gaussian, message: Tensor, group: Tensor, entries: Mapping[int, Entry], noisy: set[int]
) -> tuple[Gaussian, Tensor, list[Operator]]:
    """The scores that shares were made of, what the sum responds to them with, and the steps."""
    steps: list[Operator] = []
    while value.number in entries and value.number not in noisy:
        parents = entries[value.number].parents
        if len(parents) != 1:
            break
        before, step = parents[0]
        moved = step.of_message(message, group) if before.shape == value.shape else None
        if moved is None:
            break
        value, message = before, moved
        steps.append(step)
    return value, message, steps[::-1]


def _ends(scores: Gaussian, backwards: list[Entry], noisy: set[int]) -> list[_End]:
    """The values of nodes that scores look at, and their slopes, some links at a time."""
    links, heads = scores.mean.shape
    ends: dict[tuple[int, Sparse | None], _End] = {}
    every = torch.arange(links, device=scores.mean.device)
    start = next(i for i, entry in enumerate(backwards) if entry.value is scores)
    widest = max(e.value.mean.shape[1] for e in backwards[start:] if len(e.value) == links)
    for some in row_slices(links, heads * widest):
        rows = every[some]
        pairs = Cotangents.identity(rows, links, scores.mean, heads)
        for key, (value, node, slope) in _slopes(scores, pairs, backwards[start:], noisy).items():
            end = ends.setdefault(key, _End(value, node))
            _append(end, slope)
    numbers = sum(slope.numel() for end in ends.values() for slope in end.slopes)
    if numbers > MOST_SLOPES:
        raise _NotByEndsError
    return list(ends.values())


def _slopes(
    scores: Gaussian, pairs: Cotangents, backwards: list[Entry], noisy: set[int]
) -> dict[tuple[int, Sparse | None], tuple[Gaussian, Tensor, Tensor]]:
    """Of some links: values of nodes, the end that is looked at, ``[links]``, and the slopes."""
    found: dict[tuple[int, Sparse | None], tuple[Gaussian, Tensor, Tensor]] = {}
    reached = {scores.number: pairs}
    for entry in backwards:
        if entry.value.number not in reached:
            continue
        here = reached.pop(entry.value.number)
        if entry.value.number in noisy or not entry.parents:
            raise _NotByEndsError
        for parent, step in entry.parents:
            node = step.picks
            if node is not None:
                key = parent.number, step.matrix
                slope = here.values if key not in found else here.values + found[key][2]
                found[key] = parent, node, slope
            elif step.local and len(parent) == len(entry.value):
                moved = step.back(here, parent.mean.shape[1])
                known = reached.get(parent.number)
                reached[parent.number] = (
                    moved if known is None else moved.with_values(known.values + moved.values)
                )
            else:
                raise _NotByEndsError
        if not reached:
            return found
    raise _NotByEndsError


def _append(end: _End, slope: Tensor) -> None:  # [links, heads, features]
    """Add some links' slopes, without the zeros where every head looks at columns of its own."""
    heads, features = slope.shape[1:]
    if end.apart and features % heads == 0:
        blocks = slope.unflatten(2, (heads, -1))
        own = blocks.diagonal(dim1=1, dim2=2).movedim(-1, 1)  # [links, heads, d]
        if int(blocks.count_nonzero()) == int(own.count_nonzero()):
            end.slopes.append(own.contiguous())
            return
    if end.apart:
        end.slopes = [_among_others(own, features) for own in end.slopes]
        end.apart = False
    end.slopes.append(slope)


def _among_others(own: Tensor, features: int) -> Tensor:  # [links, heads, d] -> [.., features]
    whole = own.new_zeros(*own.shape[:2], own.shape[1], features // own.shape[1])
    whole.diagonal(dim1=1, dim2=2).copy_(own.movedim(1, -1))
    return whole.flatten(2)


def _operator(end: _End, message: Tensor, group: Tensor, count: int) -> Operator:
    key = torch.cat(end.slopes)
    if len(end.value) == count and torch.equal(end.node, group):
        return HeadJacobian(_at_nodes(message, key, end, count))
    order = group.argsort(stable=True)
    ones = torch.ones_like(order, dtype=message.dtype)
    matrix = Sparse(group[order].long(), end.node[order].long(), ones, (count, len(end.value)))
    return ScoreSum(message[order], key[order], matrix, end.apart)


def _at_nodes(message: Tensor, key: Tensor, end: _End, count: int) -> Tensor:
    r""":math:`\sum_e m_e k_e'` over the links that end at each node, ``[nodes, heads, ..]``."""
    parts = message.unflatten(1, (key.shape[1], -1))
    shape = (*parts.shape[1:], key.shape[2]) if end.apart else (1, message.shape[1], key.shape[2])
    total = message.new_zeros(count, *shape)
    for some in row_slices(len(key), total[0].numel()):
        product = parts[some][..., None] * key[some][:, :, None]  # [links, heads, channels, d]
        product = product if end.apart else product.flatten(1, 2)[:, None]
        total.index_add_(0, end.node[some].long(), product)
    return total
