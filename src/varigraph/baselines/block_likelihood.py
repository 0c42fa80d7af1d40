"""The likelihood of a graph whose nodes have a share in several classes, and its gradient."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from varigraph.baselines.block_neighbours import BlockNeighbours


@dataclass(frozen=True, eq=False)
class Blocks:
    r"""The assortative mixed-membership block model, in double precision.

    For each pair of nodes both ends draw a class from their memberships :math:`\pi`. Where they
    agree on class k the two are linked with probability :math:`\beta_k`, elsewhere with
    :math:`\delta`:

    .. math::
        \pi_{ak} = \frac{\phi_{ak}}{\sum_j \phi_{aj}}, \qquad
        \beta_k = \frac{\theta_{k1}}{\theta_{k0} + \theta_{k1}}

    Args:
        shares: :math:`\phi > 0`, ``[nodes, classes]``.
        counts: :math:`\theta > 0` of non-links and of links within each class, ``[classes, 2]``.
        across: :math:`\delta`, between 0 and 1.
    """

    shares: Tensor
    counts: Tensor
    across: float

    @property
    def memberships(self) -> Tensor:  # [nodes, classes]
        """How far each node belongs to each class; every row sums to 1."""
        return self.shares / self.shares.sum(dim=1, keepdim=True)

    @property
    def strengths(self) -> Tensor:  # [classes]
        """Probability of a link between two nodes of the same class."""
        return self.counts[:, 1] / self.counts.sum(dim=1)


@dataclass(frozen=True, eq=False)
class BlockGradient:
    """Gradient of the log-likelihood with respect to the logarithms of the parameters.

    Args:
        shares: ``[rows, classes]``.
        counts: ``[classes, 2]``.
    """

    shares: Tensor
    counts: Tensor


def pair_likelihood(
    blocks: Blocks,
    one: Tensor,  # [pairs, classes]
    two: Tensor,  # [pairs, classes]
    *,
    linked: bool,
) -> Tensor:  # [pairs]
    r"""Probability that pairs of nodes are linked, or that they are not.

    .. math::
        Z_{ab} = B(\delta) + \sum_k (B(\beta_k) - B(\delta)) \pi_{ak} \pi_{bk}, \qquad
        B(q) = q \text{ if linked, else } 1 - q

    Args:
        blocks: the model.
        one: memberships of the first ends.
        two: memberships of the second ends.
        linked: which of the two is asked for.
    """
    within, elsewhere = _chances(blocks, linked=linked)
    return elsewhere + (one * two) @ (within - elsewhere)


def block_gradient(
    blocks: Blocks,
    neighbours: BlockNeighbours,
    *,
    rows: Tensor,  # [rows]
    partners: Tensor,  # [partners]
) -> BlockGradient:
    r"""Gradient of the log-likelihood of all pairs; unbiased if rows and partners are random.

    .. math::
        \phi_{ak} \frac{\partial}{\partial \phi_{ak}} &= \sum_b
            \left( \frac{f_{ab}(k)}{Z_{ab}} - \pi_{ak} \right), \qquad
        f_{ab}(k) = \pi_{ak} \left( B(\beta_k) \pi_{bk} + B(\delta) (1 - \pi_{bk}) \right) \\
        \theta_{ki} \frac{\partial}{\partial \theta_{ki}} &= \sum_{a<b}
            \frac{B(\beta_k) \pi_{ak} \pi_{bk}}{Z_{ab}}
            \left( [i = y_{ab}] - \frac{\theta_{ki}}{\theta_{k0} + \theta_{k1}} \right)

    All pairs of a row and a partner are first taken as non-links, which is one product of
    matrices; the rows' links, and the rows as partners of themselves, are then corrected one by
    one. So memory grows as rows × partners, and no list of non-links is ever needed.

    Args:
        blocks: the model.
        neighbours: the links.
        rows: different nodes whose pairs are looked at. The gradient of the shares is theirs;
            that of the counts stands for all nodes.
        partners: different nodes that stand for all nodes.
    """
    nodes, members = len(blocks.shares), blocks.memberships
    place, other = neighbours.of(rows)
    mine, links = members[rows], (members[rows][place], members[other])
    apart = _Roles.among(blocks, mine, members[partners]) * (nodes / len(partners))
    wrong = _Roles.of(blocks, *links, linked=False).at(place, len(rows))
    alone = _Roles.of(blocks, mine, mine, linked=False)
    joined = _Roles.of(blocks, *links, linked=True).at(place, len(rows))
    apart = apart - wrong - alone
    # Each pair is met from both of its ends.
    both = torch.stack([apart.both.sum(dim=0), joined.both.sum(dim=0)], dim=1)
    both = both * nodes / (2 * len(rows))
    share = blocks.counts / blocks.counts.sum(dim=1, keepdim=True)
    return BlockGradient(
        shares=apart.own + joined.own - (nodes - 1) * mine,
        counts=both - share * both.sum(dim=1, keepdim=True),
    )


@dataclass(frozen=True, eq=False)
class _Roles:
    """Probabilities of what the ends of pairs act as, given whether they are linked.

    Args:
        own: that the first end acts as each class, ``[pairs or rows, classes]``.
        both: that both ends do, of the same shape.
    """

    own: Tensor
    both: Tensor

    @classmethod
    def of(cls, blocks: Blocks, one: Tensor, two: Tensor, *, linked: bool) -> _Roles:
        """Roles in single pairs of memberships, each ``[pairs, classes]``."""
        within, elsewhere = _chances(blocks, linked=linked)
        total = pair_likelihood(blocks, one, two, linked=linked)[:, None]
        both = within * one * two / total
        return cls(both + elsewhere * one * (1 - two) / total, both)

    @classmethod
    def among(cls, blocks: Blocks, rows: Tensor, partners: Tensor) -> _Roles:
        """Roles of rows ``[rows, classes]``, summed over all partners, none of them linked."""
        within, elsewhere = _chances(blocks, linked=False)
        inverse = (elsewhere + (rows * (within - elsewhere)) @ partners.t()).reciprocal()
        agreeing = inverse @ partners  # [rows, classes]
        both = within * rows * agreeing
        own = both + elsewhere * rows * (inverse.sum(dim=1, keepdim=True) - agreeing)
        return cls(own, both)

    def at(self, place: Tensor, rows: int) -> _Roles:  # [pairs]
        """Sums over the pairs of each row."""
        none = self.own.new_zeros(rows, self.own.size(1))
        return _Roles(none.index_add(0, place, self.own), none.index_add(0, place, self.both))

    def __sub__(self, other: _Roles) -> _Roles:
        return _Roles(self.own - other.own, self.both - other.both)

    def __mul__(self, factor: float) -> _Roles:
        return _Roles(self.own * factor, self.both * factor)


def _chances(blocks: Blocks, *, linked: bool) -> tuple[Tensor, float]:  # -> [classes] and one more
    """Probability of a link, or of none: within each class, and elsewhere."""
    if linked:
        return blocks.strengths, blocks.across
    return 1 - blocks.strengths, 1 - blocks.across
