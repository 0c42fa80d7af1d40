r"""What is left of a sum when links are removed: expectations over coins that share a divisor.

With independent coins :math:`b_j` of chances :math:`p_j` and weights :math:`w_j`, a normalised sum

.. math::
    y = \sum_j b_j v_j\, T^{-\alpha} \qquad T = \sum_j b_j w_j

is 0 where no link is left. :math:`\alpha = 1` is a mean (:math:`w = 1`) or a softmax
(:math:`w = e^{score}`, :math:`v = w m`), :math:`\alpha = 1/2` one side of GCN's normalisation. As

.. math::
    T^{-\alpha} = \frac{1}{\Gamma(\alpha)} \int_0^\infty s^{\alpha - 1} e^{-T s}\,ds

every expectation is an integral over s of one over *independent* coins with other chances,

.. math::
    E[f(b)\,T^{-\alpha}] = \int K_\alpha(s)\,G(s)\,E_{\pi(s)}[f(b)]\,ds \qquad
    K_\alpha = \frac{s^{\alpha - 1}}{\Gamma(\alpha)} \qquad G = \prod_j g_j \\
    g_j = 1 - p_j + p_j e^{-w_j s} \qquad \pi_j = p_j e^{-w_j s} / g_j

so that no two links have to be looked at together: the work is that of a sum over neighbours, times
some thirty points of s. They are those of the double-exponential rule,
:math:`s = e^{x - e^{-x}} / \max(E[T], w)`, and right to six digits from one link to thousands.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import NamedTuple

import torch
from torch import Tensor

#: Distance of the points in x, and the first of them: six digits.
STEP, FIRST = 0.5, -3.0
#: Beyond so many times the length over which the lightest link fades, nothing is left.
LENGTHS = 25.0
#: Bytes of what is kept of the points, so that it is not computed again for every block of nodes.
KEPT = 2**26
#: Links lighter than this share of their group's heaviest count as that heavy.
LIGHTEST = 1e-9


class Point(NamedTuple):
    """One point s of the integrals, in every group.

    Args:
        mass: :math:`K G ds` there, ``[groups, *heads]``.
        there: :math:`e^{-w s} / g`, the factor by which a link is likelier there, if it is left;
            ``[links, *heads]``.
        gone: :math:`1 / g`, the same if it is removed.
    """

    mass: Tensor
    there: Tensor
    gone: Tensor


@dataclass(frozen=True, eq=False)
class LinksLeft:
    r"""Links, each there with a chance of its own, in groups that share a divisor T.

    For attention, with the weights :math:`w = e^{score}` of every link and head:
    ``left = LinksLeft(target, weight, prob, nodes)`` has the expected attention weights
    ``left.shares``, and ``left.differences(left.weights[..., None] * messages)`` is the response of
    the sum at each link's target to that link's coin.

    Args:
        target: group of each link, ``[links]``.
        weight: what it adds to the divisor, positive, ``[links, *heads]``.
        prob: its chance, 1 where it is certain, ``[links]``.
        groups: number of groups.
        power: :math:`\alpha`.
        powers: the same links under other powers, as far as they were asked for.
        kept: what is known of the points, for all powers.
    """

    target: Tensor
    weight: Tensor
    prob: Tensor
    groups: int
    power: float = 1.0
    powers: dict[float, LinksLeft] = field(default_factory=dict, kw_only=True)
    kept: dict[int, tuple[Tensor, Tensor, Tensor]] = field(default_factory=dict, kw_only=True)

    @cached_property
    def given(self) -> Tensor:  # [links, *heads]
        r""":math:`E[T^{-\alpha} | b_j = 1]`, what a link that is there is multiplied with."""
        return self._integral(self.power, lambda at: at.there)

    @property
    def shares(self) -> Tensor:  # [links, *heads]
        r""":math:`E[b_j w_j T^{-\alpha}]`: the expected weight in a mean, or in a softmax."""
        return self.weights * self.present

    @property
    def weights(self) -> Tensor:  # [links, *heads]
        """The weights, none of them too light to be seen where its link is left alone."""
        return self._positive.to(self.weight)

    @property
    def present(self) -> Tensor:  # [links, *heads]
        r""":math:`E[b_j T^{-\alpha}] = p_j E[T^{-\alpha} | b_j = 1]`."""
        return self.given * self._chance.to(self.weight)

    @cached_property
    def square(self) -> Tensor:  # [links, *heads]
        r""":math:`E[b_j T^{-2 \alpha}]`: with w, the mean square of a weight."""
        return self._integral(2 * self.power, lambda at: self._chance * at.there)

    @cached_property
    def change(self) -> Tensor:  # [links, *heads]
        r""":math:`E[T^{-\alpha} | b_j = 1] - E[T^{-\alpha} | b_j = 0]`, where a link is certain."""
        return self._integral(self.power, lambda at: at.there - at.gone)

    @cached_property
    def alone(self) -> Tensor:  # [groups, *heads]
        r""":math:`E[T^{-\alpha}] = \sum_j E[b_j w_j T^{-\alpha - 1}]`; 0 where no link is left."""
        return self._added(self.with_power(self.power + 1).shares)

    def with_power(self, power: float) -> LinksLeft:
        """The same links under another power of the divisor."""
        if power not in self.powers:
            self.powers[power] = replace(self, power=power)
        return self.powers[power]

    def picked(self, links: Tensor, group: Tensor, groups: int) -> LinksLeft:  # [m], [m]
        """Some of the links in other groups, each of which is a whole group of these."""
        taken = self.weight[links], self.prob[links], groups, self.power
        return PickedLinks(group, *taken, whole=self, links=links)

    @cached_property
    def none(self) -> Tensor:  # [groups]
        """Chance that no link of a group is left."""
        logs = (1 - self.prob.double()).log()
        return logs.new_zeros(self.groups).index_add_(0, self.target, logs).exp()

    def mean(self, values: Tensor) -> Tensor:  # [links, *heads, channels] -> [groups, ...]
        r""":math:`E[y] = \sum_j E[b_j T^{-\alpha}] v_j`."""
        return self._added(self.present[..., None].to(values) * values)

    def differences(self, values: Tensor) -> Tensor:  # [links, *heads, channels] -> the same
        r"""Response of the sum to each coin: :math:`E[y | b_e = 1] - E[y | b_e = 0]`.

        .. math::
            D_e = \int K G \left[\frac{\pi_e - p_e}{p_e (1 - p_e)} \sum_{j \ne e} \pi_j v_j
                + \frac{\pi_e}{p_e} v_e\right] ds

        It is no derivative: a node with one neighbour loses all that it receives. Links that are
        certain have none.
        """
        others, own = torch.zeros_like(values), torch.zeros_like(self.weight, dtype=torch.float64)
        for at in self._points(self.power):
            mass, swing = at.mass[self.target], at.there - at.gone
            chance = self._chance * at.there
            own += mass * (self._uncertain * at.there - swing * chance)
            summed = self._added(chance[..., None].to(values) * values)
            others += (mass * swing)[..., None].to(values) * summed[self.target]
        return others + own[..., None].to(values) * values

    def covariance(self, values: Tensor) -> Tensor:  # [links, channels] -> [groups, c, c]
        r""":math:`Cov(y)` over all coins of a group, exact.

        .. math::
            E[y y'] = \int K_{2 \alpha} G \left[a a' + \sum_j \pi_j (1 - \pi_j) v_j v_j'\right] ds
            \qquad a = \sum_j \pi_j v_j

        around the mean: a sum with :math:`\alpha = 1` and values :math:`v = w c` is c wherever a
        link is left, so that c is taken off first and nothing is left to cancel.
        """
        middle = self._middle(values)
        around = values - self._positive[..., None].to(values) * middle[self.target]
        total = middle[..., :, None] * middle[..., None, :] * self._may_be_empty.to(values)
        rest, spread = self.mean(around), torch.zeros_like(self.weight, dtype=torch.float64)
        for at in self._points(2 * self.power):
            chance = self._chance * at.there
            summed = self._added(chance[..., None].to(values) * around)
            total += (
                at.mass[..., None, None].to(values) * summed[..., :, None] * summed[..., None, :]
            )
            spread += at.mass[self.target] * chance * (1 - chance)
        weighted = spread[..., None, None].to(values) * around[..., :, None] * around[..., None, :]
        found = total + self._added(weighted) - rest[..., :, None] * rest[..., None, :]
        return found.where(self.moves[..., None, None], 0)

    def variance(self, values: Tensor) -> Tensor:  # [links, *heads, channels] -> [groups, ...]
        """The diagonal of the covariance."""
        middle = self._middle(values)
        around = values - self._positive[..., None].to(values) * middle[self.target]
        total = middle.square() * self._may_be_empty[..., 0].to(values)
        spread = torch.zeros_like(self.weight, dtype=torch.float64)
        for at in self._points(2 * self.power):
            chance = self._chance * at.there
            summed = self._added(chance[..., None].to(values) * around)
            total += at.mass[..., None].to(values) * summed.square()
            spread += at.mass[self.target] * chance * (1 - chance)
        total += self._added(spread[..., None].to(values) * around.square())
        found = (total - self.mean(around).square()).clamp_min(0)
        return found.where(self.moves[..., None], 0)

    @cached_property
    def moves(self) -> Tensor:  # [groups, *1]
        """Whether a group has coins: without any, an integral's last digits would be a variance."""
        return self._added(self._uncertain.int()) > 0

    def _middle(self, values: Tensor) -> Tensor:  # -> [groups, *heads, channels]
        """What a group's sum is on average, where a link is left."""
        if self.power != 1:
            return torch.zeros_like(self._added(values))
        left = (1 - self.none).clamp_min(torch.finfo(torch.float32).tiny)
        return self.mean(values) / self._over_heads(left)[..., None].to(values)

    @property
    def _may_be_empty(self) -> Tensor:  # [groups, *1, 1, 1]
        """Variance of whether a link is left."""
        return self._over_heads(self.none * (1 - self.none))[..., None, None]

    def _integral(self, power: float, of: Callable[[Point], Tensor]) -> Tensor:  # [links, *heads]
        total = torch.zeros_like(self.weight, dtype=torch.float64)
        for at in self._points(power):
            total += at.mass[self.target] * of(at)
        return total.to(self.weight)

    def _points(self, power: float) -> Iterator[Point]:
        for number in range(self.needed):
            x = FIRST + STEP * number
            s, (left, there, gone) = self._at(x), self.kept.get(number) or self._odds(x)
            if number < self._room:
                self.kept[number] = left, there, gone
            kernel = STEP * (1 + math.exp(-x)) * s.pow(power) / math.gamma(power)
            yield Point(kernel * left, there, gone)

    def _odds(self, x: float) -> tuple[Tensor, Tensor, Tensor]:  # [groups, *heads], [links, *heads]
        """G at a point, and what odds links have there of being left or gone."""
        decay = -self._positive * self._at(x)[self.target]
        fade, sure = decay.exp(), ~self._uncertain
        g = 1 - self._chance + self._chance * fade
        left = self._added(torch.where(sure, decay, g.log())).exp()
        left = left.where(self._linked, 0)  # its own size is next to 0, and its mass beyond float32
        # Certain links stay as likely as they are, also where their g is too small to hold.
        there, gone = (torch.where(sure, 1, odds / g) for odds in (fade, 1))
        return left, there, gone

    def _at(self, x: float) -> Tensor:  # [groups, *heads]
        return math.exp(x - math.exp(-x)) / self._scale

    @property
    def _room(self) -> int:
        """How many points are kept."""
        return KEPT // (16 * max(1, self.weight.numel()))

    @cached_property
    def needed(self) -> int:
        """How many points reach as far as the lightest link does."""
        if len(self.target) == 0:
            return 1
        far = float((self._scale[self.target] / self._positive).max())
        return math.ceil((math.log(LENGTHS * far) - FIRST) / STEP) + 2

    @cached_property
    def _positive(self) -> Tensor:  # [links, *heads]
        """Weights as wide numbers, none of them too light to be seen."""
        weight = self.weight.double()
        return torch.maximum(weight, (LIGHTEST * self._heaviest)[self.target])

    @cached_property
    def _heaviest(self) -> Tensor:  # [groups, *heads]
        weight = self.weight.double()
        index = self._over_heads(self.target).expand_as(weight)
        nothing = torch.full_like(weight[:1], torch.finfo(torch.float32).tiny)
        nothing = nothing.expand(self.groups, *weight.shape[1:])
        return nothing.scatter_reduce(0, index, weight, "amax")

    @cached_property
    def _scale(self) -> Tensor:  # [groups, *heads]
        """About the divisor of a group, if anything is left of it."""
        return torch.maximum(self._added(self._chance * self._positive), self._heaviest)

    @cached_property
    def _linked(self) -> Tensor:  # [groups, *1]
        """Whether a group has any links."""
        return self._over_heads(torch.bincount(self.target, minlength=self.groups) > 0)

    @cached_property
    def _chance(self) -> Tensor:  # [links, *1]
        return self._over_heads(self.prob.double())

    @cached_property
    def _uncertain(self) -> Tensor:  # [links, *1]
        return self._over_heads(self.prob < 1)

    def _over_heads(self, x: Tensor) -> Tensor:  # [n] -> [n, *1]
        return x.view(-1, *[1] * (self.weight.dim() - 1))

    def _added(self, of_links: Tensor) -> Tensor:  # [links, ...] -> [groups, ...]
        zeros = of_links.new_zeros(self.groups, *of_links.shape[1:])
        return zeros.index_add_(0, self.target, of_links)


@dataclass(frozen=True, eq=False)
class PickedLinks(LinksLeft):
    """Links of whole groups, as often as they are wanted: what depends on chances is known.

    Args:
        target, weight, prob, groups, power, powers, kept: as in :class:`LinksLeft`.
        whole: the links that they were picked from.
        links: which of those each one is, ``[links]``.
    """

    whole: LinksLeft = field(kw_only=True)
    links: Tensor = field(kw_only=True)

    def _points(self, power: float) -> Iterator[Point]:
        for at in self.whole._points(power):
            there, gone = at.there[self.links], at.gone[self.links]
            yield Point(at.mass[self._group], there, gone)

    @cached_property
    def none(self) -> Tensor:  # [groups]
        """Chance that no link of a group is left."""
        return self.whole.none[self._group]

    @cached_property
    def _positive(self) -> Tensor:
        return self.whole._positive[self.links]

    @cached_property
    def given(self) -> Tensor:  # [links, *heads]
        """As it is for the links that they were picked from."""
        return self.whole.given[self.links]

    @cached_property
    def _group(self) -> Tensor:  # [groups]
        """The group of those links that each group is."""
        groups = self.target.new_zeros(self.groups)
        return groups.index_copy_(0, self.target, self.whole.target[self.links])
