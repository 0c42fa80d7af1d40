"""Scorers for tests that are about what surrounds a scorer."""

from __future__ import annotations

import torch

from varigraph.links.hadamard import Hadamard
from varigraph.links.methods import common_neighbours


class Quick(Hadamard):
    """The real thing, trained for a short while."""

    def __init__(self, links, *, nodes, x=None, seed=0):
        super().__init__(links, nodes=nodes, x=x, seed=seed, steps=100)


class Neighbourly:
    """Counts common neighbours; remembers all that were made, and what they were given."""

    made: list[Neighbourly] = []  # noqa: RUF012  (emptied by the tests that look at it)

    def __init__(self, links, *, nodes, x=None, seed=0):
        self.links, self.nodes, self.seed = links, nodes, seed
        self.asked = []
        Neighbourly.made.append(self)

    def fit(self, pairs, real, held, held_real, report):
        self.pairs, self.real, self.held, self.held_real = pairs, real, held, held_real
        report(0.5)
        report(1.0)

    def logits(self, pairs):
        self.asked.append(pairs)
        return common_neighbours(pairs, self.links, nodes=self.nodes).float() - 0.5


def random_graph(nodes, links, seed=0):
    """So many of the pairs, drawn at random, each in both directions: ``[2, 2 * links]``."""
    every = torch.combinations(torch.arange(nodes)).t()
    order = torch.randperm(every.size(1), generator=torch.Generator().manual_seed(seed))
    some = every[:, order[:links]]
    return torch.cat([some, some.flip(0)], dim=1)


def two_cliques(size):
    """Everyone knows everyone in their own half: ``[2, 2 * size * (size - 1)]``."""
    half = torch.combinations(torch.arange(size)).t()
    pairs = torch.cat([half, half + size], dim=1)
    return torch.cat([pairs, pairs.flip(0)], dim=1)
