"""The block model of nodes that share in classes: likelihood, fit, and graphs drawn from it."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from varigraph.errors import OptionError
from varigraph.links.link_pairs import LinkPairs, non_links

#: Nodes that move in one step, and nodes that stand for all their possible partners.
ROWS, PARTNERS = 500, 500
#: Probability of a link between nodes that act as different classes.
ACROSS = 1e-4
#: Rate of the Gamma priors.
RATE = 1e-3
#: Least membership to start from: a step multiplies, so 0 would stay 0.
LEAST = 1e-6


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


def fitted_blocks(
    links: LinkPairs,
    guess: Tensor,  # [nodes, classes]
    *,
    generator: torch.Generator,
    across: float = ACROSS,
    steps: int = 30,
) -> Blocks:
    r"""The block model after some preconditioned stochastic gradient steps up its posterior.

    .. math::
        \phi_a \leftarrow \left| \phi_a + \frac{\epsilon_t}{2}
            \left( \phi_a \circ \nabla_{\phi_a} - \rho \phi_a \right) \right|, \qquad
        \epsilon_t = \frac{10}{\sqrt{1024 + t}}

    and :math:`\theta` likewise: gradient steps in :math:`\log \phi`, with priors
    Gamma(1, :math:`\rho`), under which memberships and strengths are uniform.

    Both start as pseudo-counts: :math:`\theta` as the links and non-links within each guessed
    class, :math:`\phi_a` as the guess times one more than the links of node a. So a step moves a
    node with many links as far as one with few.

    Args:
        links: of the graph.
        guess: memberships to start from, each row summing to 1.
        generator: draws who moves and whom it is compared with.
        across: :math:`\delta`, probability of a link between different classes; it stays.
        steps: how many; each moves 500 nodes.

    Raises:
        OptionError: if ``across`` is not a probability or ``steps`` is negative.
    """
    if not (0 < across < 1 and steps >= 0):
        raise OptionError(
            f"across={across}, steps={steps}", "0 < across < 1, steps from 0: across=1e-4, steps=30"
        )
    neighbours = BlockNeighbours(links.pairs, nodes=links.nodes)
    blocks = started_blocks(links, guess, across=across)
    for time in range(steps):
        rows, partners = (_shuffled(links, generator)[:count] for count in (ROWS, PARTNERS))
        blocks = _moved(blocks, neighbours, rows, partners, 10 / (1024 + time) ** 0.5)
    return blocks


def started_blocks(links: LinkPairs, guess: Tensor, *, across: float = ACROSS) -> Blocks:
    """The block model that a guess of the memberships ``[nodes, classes]`` leads to at once."""
    members = guess.double().clamp_min(LEAST)
    members = members / members.sum(dim=1, keepdim=True)
    degree = torch.bincount(links.pairs.flatten(), minlength=links.nodes)
    label = members.argmax(dim=1)
    one, two = label[links.pairs]
    size = torch.bincount(label, minlength=guess.size(1)).double()
    linked = torch.bincount(one[one == two], minlength=guess.size(1)).double()
    apart = size * (size - 1) / 2 - linked
    return Blocks(
        shares=members * (1 + degree[:, None]),
        counts=1 + torch.stack([apart, linked], dim=1),  # 1 so that no class is impossible
        across=across,
    )


def _moved(
    blocks: Blocks, neighbours: BlockNeighbours, rows: Tensor, partners: Tensor, step: float
) -> Blocks:
    """The model after one step of some of its shares, ``[rows]``, and of all its counts."""
    gradient = block_gradient(blocks, neighbours, rows=rows, partners=partners)
    shares = blocks.shares.index_put((rows,), _stepped(blocks.shares[rows], gradient.shares, step))
    return Blocks(shares, _stepped(blocks.counts, gradient.counts, step), blocks.across)


def _stepped(value: Tensor, gradient: Tensor, step: float) -> Tensor:
    return (value + step / 2 * (gradient - RATE * value)).abs()


def _shuffled(links: LinkPairs, generator: torch.Generator) -> Tensor:  # -> [nodes]
    return torch.randperm(links.nodes, generator=generator).to(links.pairs.device)


class BlockNeighbours:
    """Who is linked to whom.

    Args:
        links: each link once, no self links, ``[2, links]``.
        nodes: how many nodes there are.

    Example:
        >>> star = BlockNeighbours(torch.tensor([[0, 0], [1, 2]]), nodes=4)
        >>> place, other = star.of(torch.tensor([3, 0, 2]))
        >>> place.tolist(), other.tolist()
        ([1, 1, 2], [1, 2, 0])
    """

    def __init__(self, links: Tensor, *, nodes: int) -> None:
        both = torch.cat([links, links.flip(0)], dim=1)
        order = (both[0] * nodes + both[1]).argsort()
        self._other = both[1, order]
        self.degree = torch.bincount(both[0], minlength=nodes)  # [nodes]
        self._start = self.degree.cumsum(0) - self.degree

    def of(self, rows: Tensor) -> tuple[Tensor, Tensor]:  # [rows] -> [found], [found]
        """For each link of these nodes: the node's place among them, and who is at its far end."""
        degree = self.degree[rows]
        place = torch.arange(len(rows), device=rows.device).repeat_interleave(degree)
        offset = self._start[rows] - (degree.cumsum(0) - degree)  # [rows]
        found = torch.arange(len(place), device=rows.device)
        return place, self._other[offset[place] + found]


def drawn_links(
    labels: Tensor,  # [nodes]
    strengths: Tensor,  # [classes]
    *,
    across: float,
    generator: torch.Generator,
) -> Tensor:  # [2, links]
    r"""Links drawn independently: :math:`\beta_k` within class k, :math:`\delta` across classes.

    Each link is given once. Their number is drawn first, then their places, so time and memory
    grow with the links and not with the pairs.

    Args:
        labels: class of each node.
        strengths: :math:`\beta`.
        across: :math:`\delta`.
        generator: draws the links.

    Example:
        >>> draw = torch.Generator().manual_seed(0)
        >>> certain = torch.tensor([1.0, 0.0])
        >>> drawn_links(torch.tensor([0, 1, 0, 1]), certain, across=0.0, generator=draw).tolist()
        [[0], [2]]
    """
    within = [
        _drawn((labels == label).nonzero().flatten(), strength, generator)
        for label, strength in enumerate(strengths.tolist())
    ]
    anywhere = _drawn(torch.arange(len(labels), device=labels.device), across, generator)
    # Pairs are drawn independently, so those of one class can be left out after the draw.
    one, two = labels[anywhere]
    return torch.cat([*within, anywhere[:, one != two]], dim=1)


def _drawn(members: Tensor, chance: float, generator: torch.Generator) -> Tensor:  # [members]
    """Pairs of members, each with this chance, ``[2, links]``."""
    size = len(members)
    pairs, chances = torch.tensor([size * (size - 1) // 2, chance], dtype=torch.double)
    count = int(torch.binomial(pairs, chances, generator=generator))
    none = members.new_empty(2, 0)
    return members[non_links(none, nodes=size, count=count, generator=generator)]
