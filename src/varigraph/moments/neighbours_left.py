"""Sums over the neighbours that are left when links are removed: means, and GCN's."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from typing import Any, ClassVar

import torch
from torch import Tensor

from varigraph.errors import MissingRuleError
from varigraph.moments.cotangents import row_slices
from varigraph.moments.links import Moved, Rest, Seen
from varigraph.moments.links_left import LinksLeft
from varigraph.moments.neighbours import Neighbours
from varigraph.sparse import Sparse


def _given(links: Neighbours) -> dict[str, Any]:
    """What links were made of."""
    return {each.name: getattr(links, each.name) for each in fields(Neighbours)}


@dataclass(frozen=True, eq=False)
class SumLeft(Neighbours):
    r"""Messages into a node that share a divisor, as in the graph without the removed links.

    ``weight`` is the weight of a message whose link is there, :math:`E[S | b = 1]`: expected
    weights are :math:`p w`, as they are for links that are silenced.

    Args:
        target, source, weight, prob, nodes, coin_of, senders: as in :class:`Neighbours`.
        factor: of a message, before it is divided, ``[pairs]``.
        left: the links in the groups that share a divisor.
    """

    factor: Tensor = field(kw_only=True)
    left: LinksLeft = field(kw_only=True)

    ties_messages: ClassVar[bool] = True

    @cached_property
    def coin(self) -> Sparse | None:
        """Variances of the weights, :math:`Var[S]`."""
        return self._matrix((self.square.values - self.expected.values.square()).clamp_min(0))

    def moved_together(self, mean: Tensor) -> Tensor:
        r"""Single effects of the coins: :math:`\sum_e p_e (1 - p_e) D_e D_e'`."""
        moved, total = self.differences(mean), mean.new_zeros(self.nodes, *[mean.shape[1]] * 2)
        for some in row_slices(len(moved), mean.shape[1] ** 2, mean.device):
            each = self.toss[some, None, None] * moved[some, :, None] * moved[some, None, :]
            total.index_add_(0, self.target[some], each)
        return total

    def with_self(self, weight: Tensor) -> Neighbours:  # noqa: D102
        raise MissingRuleError(
            "a layer adds each node to a mean of which links may be removed",
            'take aggr="sum", or method="sampled"',
        )

    def to_coins(self, seen: Seen) -> Iterator[Moved | Rest]:
        r"""Each coin moves the whole sum of its target, and all coins of a target do so together.

        What they cause beside their single effects is the exact covariance of the node's sum less
        those: :math:`Cov(y) - \sum_e p_e (1 - p_e) D_e D_e'`.
        """
        assert self.coin_of is not None
        target = seen.row * self.nodes + self.target[seen.link]
        targets, group = torch.unique_consecutive(target, return_inverse=True)
        slope, covariance = self._of_groups(seen.link, seen.value.double(), group, len(targets))
        toss = self.toss[seen.link].double()
        alone = toss[:, None, None] * slope[:, :, None] * slope[:, None, :]
        rest = covariance.index_add_(0, group, -alone)
        tossed = self.tossed[seen.link]
        moved = slope[tossed].to(seen.value) + seen.own[tossed]
        yield Moved(seen.row[tossed], self.coin_of[seen.link[tossed]], moved)
        total = rest.new_zeros(seen.rows, *rest.shape[1:])
        yield Rest(total.index_add_(0, targets // self.nodes, rest).to(seen.value))

    @abstractmethod
    def _of_groups(
        self, link: Tensor, value: Tensor, group: Tensor, groups: int
    ) -> tuple[Tensor, Tensor]:  # [walks, outputs], [groups, outputs, outputs]
        """Response of each group's sum to the coin of each link, and the covariance of the sum."""


@dataclass(frozen=True, eq=False)
class MeanLeft(SumLeft):
    r"""A mean over the neighbours that are left, :math:`S_{uv} = b_{uv} v_{uv} / \sum_w b_{uw}`."""

    @classmethod
    def of(cls, links: Neighbours, copies: Tensor) -> MeanLeft:  # [pairs]
        """The mean of messages that are summed otherwise, each counted so many times."""
        assert links.prob is not None
        left = LinksLeft(links.target.long(), copies.double(), links.prob, links.nodes)
        weight = (links.weight * left.given).to(links.weight)
        return cls(**{**_given(links), "weight": weight}, factor=links.weight, left=left)

    @cached_property
    def square(self) -> Sparse:
        """Expected squares of the weights, :math:`E[S^2]`."""
        return self._matrix((self.factor.square() * self.left.square).to(self.factor))

    def rows(self, rows: slice) -> MeanLeft:  # noqa: D102
        some, start = super().rows(rows), self.expected.start
        links = torch.arange(int(start[rows.start]), int(start[rows.stop]), device=start.device)
        return MeanLeft(
            **_given(some),
            factor=self.factor[links],
            left=self.left.picked(links, some.target.long(), some.nodes),
        )

    def moved_by_coins(self, mean: Tensor) -> Tensor:  # noqa: D102
        return self.left.variance(self._messages(mean))

    def moved_together(self, mean: Tensor) -> Tensor:  # noqa: D102
        return self.left.covariance(self._messages(mean))

    def differences(self, mean: Tensor) -> Tensor:  # noqa: D102
        return self.left.differences(self._messages(mean))

    def _messages(self, mean: Tensor) -> Tensor:  # [nodes, features] -> [pairs, features]
        return self.factor[:, None] * mean[self.source]

    def _of_groups(
        self, link: Tensor, value: Tensor, group: Tensor, groups: int
    ) -> tuple[Tensor, Tensor]:
        left = self.left.picked(link, group, groups)
        messages = self.factor[link, None].double() * value
        return left.differences(messages), left.covariance(messages)


@dataclass(frozen=True, eq=False)
class NormalisedLeft(SumLeft):
    r"""GCN's sum with the degrees of what is left: :math:`S = b\,w\,d_u^{-\alpha} d_v^{-\beta}`.

    :math:`\alpha = \beta = 1/2` for one sum. Where the link u–v is there, the two degrees have no
    further coin in common, so that

    .. math::
        E[S_{uv}] = p\,w\,E[d_u^{-\alpha} | b_{uv} = 1]\;E[d_v^{-\beta} | b_{uv} = 1]

    exactly. A coin at u moves all that u receives, its own message :math:`w\,d_u^{-\alpha - \beta}`
    included, and all that it sends.

    Args:
        target, source, weight, prob, nodes, coin_of, senders, factor, left: as in
            :class:`SumLeft`; :math:`\alpha` is the power of what is left.
        sends: :math:`\beta`.
    """

    sends: float = field(default=0.5, kw_only=True)

    @classmethod
    def of(cls, links: Neighbours, power: float = 0.5, sends: float = 0.5) -> NormalisedLeft:
        """The same for links that are summed with these weights, loops among them."""
        assert links.prob is not None
        # Variances of degrees are differences of nearly equal squares: they are wide numbers.
        wide = links.weight.double()
        left = LinksLeft(links.target.long(), wide, links.prob, links.nodes, power)
        return cls(**_given(links), factor=links.weight, left=left, sends=sends)._weighed()

    def _weighed(self) -> NormalisedLeft:
        """The same with the weights that messages have where their links are there."""
        if not self.always_divides:
            raise MissingRuleError(
                "GCN's normalisation has no self-loops, and a link that may be removed goes one "
                "way: a node may be left without a degree",
                'links both ways with the same chance, add_self_loops=True, or method="sampled"',
            )
        to_itself, others = self.factor * self._itself.given, self.sent * self.left.given
        return replace(self, weight=torch.where(self.loop, to_itself, others).to(self.factor))

    def steps(self, count: int) -> list[Neighbours]:
        r"""Sums that follow each other, without a degree that is met twice.

        .. math::
            (D^{-1/2} B D^{-1/2})^K = (D^{-1/2} B) (D^{-1} B)^{K - 2} (D^{-1} B D^{-1/2})

        The same product, but each degree on a walk now has one power, of which the mean is known.
        """
        if count == 1 or not self.has_degrees:
            return [self] * count
        return [self._first, *[self._between] * (count - 2), self._last]

    @cached_property
    def has_degrees(self) -> bool:
        """Whether every node has a loop of its own, so that its degree is never 0."""
        return int((self.loop & ~self.tossed).sum()) == self.nodes

    @cached_property
    def _first(self) -> NormalisedLeft:
        return self._with_powers(1.0, 0.5)

    @cached_property
    def _between(self) -> NormalisedLeft:
        return self._with_powers(1.0, 0.0)

    @cached_property
    def _last(self) -> NormalisedLeft:
        return self._with_powers(0.5, 0.0)

    def _with_powers(self, power: float, sends: float) -> NormalisedLeft:
        return replace(self, left=self.left.with_power(power), sends=sends)._weighed()

    @property
    def always_divides(self) -> bool:
        """Whether a node that sends a message has a degree, whatever is removed."""
        certain = self.target[~self.tossed].unique()
        returns = self.ways_back(self)[0] | ~self.tossed
        return len(certain) == self.nodes or bool(returns.all())

    @cached_property
    def loop(self) -> Tensor:  # [pairs]
        """Which links lead from a node to itself."""
        return self.target == self.source

    @cached_property
    def sent(self) -> Tensor:  # [pairs]
        r""":math:`w\,E[d_v^{-\beta} | b_{uv} = 1]`, as a message leaves its source; 0 for loops."""
        return torch.where(self.loop, 0, self._at_source(self.sends) * self.factor)

    @cached_property
    def square(self) -> Sparse:
        """Expected squares of the weights, :math:`E[S^2]`."""
        others = self.left.square * self._at_source(2 * self.sends)
        squares = torch.where(self.loop, self._to_the(2 * self._itself.power).given, others)
        return self._matrix((self.factor.square() * squares).to(self.factor))

    def rows(self, rows: slice) -> Neighbours:  # noqa: D102
        raise MissingRuleError(
            "GCN's degrees, of which links may be removed, are not looked at block by block",
            'give more memory=, or take method="sampled"',
        )

    def moved_by_coins(self, mean: Tensor) -> Tensor:
        """Single effects of the coins at both ends."""
        each = self.toss[:, None] * self.differences(mean).square()
        at_target = each.new_zeros(self.nodes, each.shape[1]).index_add_(0, self.target, each)
        if self.sending is None:
            return at_target
        at_source = self.toss * self.of_degree.square()
        at_source = at_source.new_zeros(self.nodes).index_add_(0, self.target, at_source)
        sent = self.sending.values.square() * at_source[self.source]
        return at_target + self._matrix(sent) @ mean.square()

    def differences(self, mean: Tensor) -> Tensor:  # noqa: D102
        others = self.left.differences(self.sent[:, None].to(mean) * mean[self.source])
        return others + self._of_loops[:, None].to(mean) * mean[self.target]

    def again(self, here: Tensor, there: Tensor) -> Tensor:  # noqa: D102
        return super().again(here, there) + self._of_loops[:, None].to(here) * here

    def _of_groups(
        self, link: Tensor, value: Tensor, group: Tensor, groups: int
    ) -> tuple[Tensor, Tensor]:
        left = self.left.picked(link, group, groups)
        messages = self.sent[link, None] * value
        loops = torch.where(self.loop, self.factor, 0)[link, None].double()
        own = value.new_zeros(groups, value.shape[1]).index_add_(0, group, loops * value)
        slope = left.differences(messages) + self._itself.change[link, None] * own[group]
        cross = torch.zeros_like(own).index_add_(0, group, self._shared[link, None] * messages)
        both = cross[:, :, None] * own[:, None, :]
        spread = own.new_zeros(groups).index_copy_(0, group, self._spread[self.target[link]])
        alone = spread[:, None, None] * own[:, :, None] * own[:, None, :]
        covariance = left.covariance(messages) + both + both.mT + alone
        lost = self._by_senders[link, None, None] * value[:, :, None] * value[:, None, :]
        return slope, covariance.index_add_(0, group, lost)

    @cached_property
    def sending(self) -> Sparse | None:
        """Expected weights without loops: what a node's degree moves of others' sums."""
        if self.sends == 0:
            return None
        return self._matrix(torch.where(self.loop, 0, self.expected.values))

    @property
    def of_degree(self) -> Tensor:  # noqa: D102
        return self._moved_degree.to(self.factor)

    @cached_property
    def _moved_degree(self) -> Tensor:  # [pairs]
        r"""Share by which :math:`d^{-\beta}` of a link's target changes with its coin.

        On average over the other links of the node, each as if it were there: exact where chances
        are equal.
        """
        sends, others = self._to_the(self.sends), torch.where(self.loop, 0.0, 1.0).double()
        moved = sends.differences(others[:, None])[:, 0] - sends.given
        present = others * sends.present
        total = present.new_zeros(self.nodes).index_add_(0, self.target, present)[self.target]
        rest = total - present
        alone = rest <= 1e-6 * total  # a node with one link sends to nobody else
        found = torch.where(alone, 0, moved / rest.where(~alone, torch.ones_like(rest)))
        return torch.where(self.tossed, found, 0)

    @cached_property
    def _by_senders(self) -> Tensor:  # [pairs]
        r"""Variance of a weight due to its source's degree, less the single effects of coins there.

        .. math::
            w^2 E[b\,d_u^{-2 \alpha}]\,Var[d_v^{-\beta} | b = 1]
                - E[S]^2 \sum_e p_e (1 - p_e) r_e^2

        with the share r of the degree's power that a coin moves.
        """
        if self.sending is None:
            return torch.zeros_like(self.weight, dtype=torch.float64)
        spread = self._at_source(2 * self.sends) - self._at_source(self.sends).square()
        spread = spread.where(self.left.moves[self.source], 0)
        whole = torch.where(self.loop, 0, self.factor.square() * self.left.square * spread)
        single = self.toss * self._moved_degree.square()
        at_node = single.new_zeros(self.nodes).index_add_(0, self.target, single)
        same, back = self.ways_back(self)
        others = at_node[self.source] - torch.where(same, single[back], 0)
        return (whole - self.sending.values.square() * others).clamp_min(0)

    def _at_source(self, power: float) -> Tensor:  # [pairs]
        """A power of the source's degree, where a link is there."""
        if power == 0:
            return torch.ones_like(self.left.weight)
        (same, back), degree = self.ways_back(self), self._to_the(power)
        return torch.where(same, degree.given[back], degree.alone[self.source])

    @cached_property
    def _of_loops(self) -> Tensor:  # [pairs]
        """How the weight of a node's message to itself responds to each coin at it."""
        loops = torch.where(self.loop, self.factor, 0)
        loops = loops.new_zeros(self.nodes).index_add_(0, self.target, loops)
        return self._itself.change * loops[self.target]

    @cached_property
    def _shared(self) -> Tensor:  # [pairs]
        r""":math:`Cov(b_j d^{-\alpha}, d^{-\alpha - \beta})`: others with the node itself."""
        both = self._to_the(self.left.power + self._itself.power).present
        found = both - self.left.present * self._itself.alone[self.target]
        return found.where(self.left.moves[self.target], 0)

    @cached_property
    def _spread(self) -> Tensor:  # [nodes]
        r"""Variance of :math:`d^{-\alpha - \beta}`."""
        square = self._to_the(2 * self._itself.power).alone
        return (square - self._itself.alone.square()).where(self.left.moves, 0)

    @cached_property
    def _itself(self) -> LinksLeft:
        r"""Under the power that a node's message to itself has, :math:`\alpha + \beta`."""
        return self._to_the(self.left.power + self.sends)

    def _to_the(self, power: float) -> LinksLeft:
        return self.left.with_power(power)
