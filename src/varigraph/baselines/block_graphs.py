"""Graphs drawn from the block model."""

from __future__ import annotations

import torch
from torch import Tensor

from varigraph.links.link_pairs import non_links


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
