"""Fitting the block model to a graph, from a first guess of the nodes' classes."""

from __future__ import annotations

import torch
from torch import Tensor

from varigraph.baselines.block_likelihood import Blocks, block_gradient
from varigraph.baselines.block_neighbours import BlockNeighbours
from varigraph.errors import OptionError
from varigraph.links.link_pairs import LinkPairs

#: Nodes that move in one step, and nodes that stand for all their possible partners.
ROWS, PARTNERS = 500, 500
#: Probability of a link between nodes that act as different classes.
ACROSS = 1e-4
#: Rate of the Gamma priors.
RATE = 1e-3
#: Least membership to start from: a step multiplies, so 0 would stay 0.
LEAST = 1e-6


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
        OptionError: if ``across`` is no probability or ``steps`` is negative.
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
