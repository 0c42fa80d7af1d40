import math
from itertools import combinations

import networkx as nx
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import chisquare

from varigraph.errors import GraphError
from varigraph.links.link_pairs import link_pairs, non_links, numbered_pairs, pair_numbers


def as_set(pairs):
    return {tuple(sorted(pair)) for pair in pairs.t().tolist()}


def generator(seed=0):
    return torch.Generator().manual_seed(seed)


def drawn(links, count, draw):
    return non_links(links.pairs, nodes=links.nodes, count=count, generator=draw)


def test_every_pair_has_a_number_of_its_own_without_gaps():
    pairs = torch.tensor(list(combinations(range(40), 2))).t()
    numbers = pair_numbers(pairs)
    assert sorted(numbers.tolist()) == list(range(40 * 39 // 2))
    assert torch.equal(pair_numbers(pairs.flip(0)), numbers)
    assert torch.equal(numbered_pairs(numbers), pairs)


@pytest.mark.parametrize("high", [2, 1000, 94_906_266, 40_000_000])
def test_numbers_lead_back_to_their_pairs_however_large(high):
    ends = torch.tensor([[0, 1, high - 2, high - 1], [high, high, high, high]])
    ends = ends[:, ends[0] >= 0]
    number = [math.comb(h, 2) + low for low, h in ends.t().tolist()]
    assert pair_numbers(ends).tolist() == number
    assert torch.equal(numbered_pairs(torch.tensor(number)), ends)


def test_directions_repetitions_and_self_links_fall_together():
    edge_index = torch.tensor([[3, 1, 2, 2, 0, 1, 3], [1, 3, 2, 0, 2, 3, 0]])
    links = link_pairs(edge_index, nodes=5)
    assert as_set(links.pairs) == {(1, 3), (0, 2), (0, 3)}
    assert len(links) == 3
    assert links.possible == 10
    for edge, link in enumerate(links.link_of_edge.tolist()):
        ends = sorted(edge_index[:, edge].tolist())
        assert (links.pairs[:, link].tolist() == ends) if link >= 0 else (ends[0] == ends[1])


@given(
    nodes=st.integers(3, 30),
    density=st.floats(0, 1),
    share=st.floats(0, 1),
    seed=st.integers(0, 10**6),
)
@settings(max_examples=60, deadline=None)
def test_non_links_are_distinct_and_never_linked(nodes, density, share, seed):
    graph = nx.gnp_random_graph(nodes, density, seed=seed)
    edges = torch.tensor(list(graph.edges), dtype=torch.long).reshape(-1, 2).t()
    links = link_pairs(edges, nodes=nodes)
    count = int(share * (links.possible - len(links)))
    pairs = drawn(links, count, generator(seed))
    assert pairs.shape == (2, count)
    assert len(as_set(pairs)) == count
    assert as_set(pairs) <= as_set(torch.tensor(list(nx.non_edges(graph))).reshape(-1, 2).t())


@pytest.mark.parametrize("count", [1, 10])
def test_all_non_links_are_equally_likely(count):
    graph = nx.path_graph(10)
    links = link_pairs(torch.tensor(list(graph.edges)).t(), nodes=10)
    draw = generator(1)
    found = torch.cat([drawn(links, count, draw) for _ in range(7200 // count)], dim=1)
    counts = torch.bincount(pair_numbers(found), minlength=45)
    counts = counts[pair_numbers(torch.tensor(list(nx.non_edges(graph))).t())]
    assert counts.sum() == found.size(1)
    # Ten of 36 without replacement scatter less than independent draws, so the test is on one side.
    assert chisquare(counts.numpy()).pvalue > 1e-4


def test_order_says_nothing_about_the_pair():
    """Folds take the first, the second, ... of the pairs, so these must be alike."""
    links = link_pairs(torch.tensor([[0], [1]]), nodes=10_000)
    numbers = pair_numbers(drawn(links, 4000, generator(3))).double()
    rank = torch.arange(4000.0, dtype=torch.double)
    correlation = torch.corrcoef(torch.stack([numbers, rank]))[0, 1]
    assert abs(correlation) < 4.5 / 4000**0.5


def test_too_few_non_links_are_explained():
    links = link_pairs(torch.tensor([[0, 0, 1], [1, 2, 2]]), nodes=3)
    with pytest.raises(GraphError) as caught:
        drawn(links, 1, generator())
    assert "3 of 3 pairs are linked" in caught.value.problem
    assert "fewer than half" in caught.value.remedy
