"""Block models and graphs for the tests, and what they are by the book: pair by pair."""

import math
from itertools import combinations

import networkx as nx
import torch

from varigraph.baselines.block_model import Blocks
from varigraph.links.link_pairs import link_pairs


def generator(seed=0):
    return torch.Generator().manual_seed(seed)


def random_blocks(nodes, classes, *, across=0.07, seed=0):
    draw = generator(seed)
    shares = 0.2 + 3 * torch.rand(nodes, classes, generator=draw, dtype=torch.double)
    counts = 0.5 + 4 * torch.rand(classes, 2, generator=draw, dtype=torch.double)
    return Blocks(shares, counts, across)


def random_links(nodes, density=0.3, seed=0):
    return links_of(nx.gnp_random_graph(nodes, density, seed=seed))


def links_of(graph):
    edges = torch.tensor(list(graph.edges), dtype=torch.long).reshape(-1, 2).t()
    return link_pairs(edges, nodes=len(graph))


def planted(sizes, within, across, seed=0):
    """Links of a planted partition, and the classes."""
    classes = len(sizes)
    chances = [[within if k == j else across for k in range(classes)] for j in range(classes)]
    graph = nx.stochastic_block_model(sizes, chances, seed=seed)
    return links_of(graph), torch.arange(classes).repeat_interleave(torch.tensor(sizes))


def soft_guess(labels, classes, *, wrong=0.3, seed=0):
    """Memberships of which a share names another class than the true one."""
    draw = generator(seed)
    turned = torch.rand(len(labels), generator=draw) < wrong
    shift = torch.randint(1, classes, labels.shape, generator=draw)
    named = torch.where(turned, (labels + shift) % classes, labels)
    return (2.0 * torch.nn.functional.one_hot(named, classes)).softmax(dim=1)


def log_likelihood(blocks, links):
    """By the definition: sum over all pairs and over all roles that their ends may take."""
    linked = set(map(tuple, links.pairs.t().tolist()))
    share = [[s / sum(row) for s in row] for row in blocks.shares.tolist()]
    strength = [one / (none + one) for none, one in blocks.counts.tolist()]
    classes, total = range(len(strength)), 0.0
    for a, b in combinations(range(len(share)), 2):
        chance = 0.0
        for k in classes:
            for j in classes:
                link = strength[k] if k == j else blocks.across
                seen = link if (a, b) in linked else 1 - link
                chance += share[a][k] * share[b][j] * seen
        total += math.log(chance)
    return total
