import math
from itertools import combinations

import pytest
import torch
from scipy.stats import chisquare

from baselines.block_models import generator
from varigraph.baselines.block_model import drawn_links


def drawn(labels, strengths, across, seed=0):
    return drawn_links(labels, torch.tensor(strengths), across=across, generator=generator(seed))


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize(
    ("strengths", "across"), [([0.3, 0.01, 0.9], 0.05), ([0.0, 1.0, 0.5], 0.3)]
)
def test_block_densities_are_within_three_sigma(strengths, across, seed):
    labels = torch.randint(3, (300,), generator=generator(9))
    links = drawn(labels, strengths, across, seed)
    size = torch.bincount(labels).tolist()
    # Two blocks meet in the order of their numbers, whichever end stands first.
    low, high = labels[links].sort(dim=0).values
    for k, j in [(0, 0), (1, 1), (2, 2), (0, 1), (0, 2), (1, 2)]:
        found = int(((low == k) & (high == j)).sum())
        pairs = math.comb(size[k], 2) if k == j else size[k] * size[j]
        chance = strengths[k] if k == j else across
        assert abs(found - pairs * chance) <= 3 * math.sqrt(pairs * chance * (1 - chance))


@pytest.mark.parametrize("strength", [0.02, 0.5, 0.97, 1.0])
def test_no_pair_is_drawn_twice_and_no_node_meets_itself(strength):
    labels = torch.randint(4, (120,), generator=generator(2))
    links = drawn(labels, [strength] * 4, strength / 2)
    assert (links[0] != links[1]).all()
    assert len({frozenset(pair) for pair in links.t().tolist()}) == links.size(1) > 50


def test_every_pair_of_a_block_is_as_likely_as_any_other():
    labels = torch.tensor([0, 1, 0, 1, 1, 0, 1, 0, 1])
    chances, draw = torch.tensor([0.3, 0.6]), generator(11)
    times = dict.fromkeys(combinations(range(9), 2), 0)
    for _ in range(3000):
        links = drawn_links(labels, chances, across=0.2, generator=draw)
        for pair in links.sort(dim=0).values.t().tolist():
            times[tuple(pair)] += 1
    for blocks in ({0}, {1}, {0, 1}):
        counts = [times[a, b] for a, b in times if {*labels[[a, b]].tolist()} == blocks]
        # Scatter is below that of a multinomial draw, so the test is on one side.
        assert chisquare(counts).pvalue > 1e-4
        assert len(counts) == {(0,): 6, (1,): 10, (0, 1): 20}[tuple(blocks)]


def test_links_are_independent():
    """Numbers of links scatter as binomial ones, and blocks know nothing of each other."""
    labels, draw = torch.arange(40) % 2, generator(4)
    rows = []
    for _ in range(2000):
        links = drawn_links(labels, torch.tensor([0.2, 0.4]), across=0.1, generator=draw)
        one, two = labels[links]
        rows.append([(one + two == kind).sum() for kind in (0, 2, 1)])
    counts = torch.tensor(rows).float()
    variance = torch.tensor([190 * 0.2 * 0.8, 190 * 0.4 * 0.6, 400 * 0.1 * 0.9])
    ratio = counts.var(dim=0) / variance
    assert (ratio - 1).abs().max() < 4.5 * math.sqrt(2 / 2000)
    correlation = torch.corrcoef(counts.t()) - torch.eye(3)
    assert correlation.abs().max() < 4.5 / math.sqrt(2000)


def test_empty_and_single_classes_draw_nothing_of_their_own():
    links = drawn(torch.tensor([0, 2, 2]), [1.0, 1.0, 1.0, 1.0], 0.0)
    assert links.tolist() == [[1], [2]]


def test_a_large_graph_takes_no_more_than_its_links():
    labels = torch.arange(2_000_000) % 5  # 2 * 10^12 pairs
    links = drawn(labels, [1e-7] * 5, 1e-8)
    mean = 5 * math.comb(400_000, 2) * 1e-7 + 10 * 400_000**2 * 1e-8
    assert abs(links.size(1) - mean) < 4.5 * math.sqrt(mean)
    assert links.max() > 1_900_000


def test_the_generator_decides_and_torch_s_own_is_left_alone():
    labels, state = torch.arange(50) % 3, torch.get_rng_state()
    one, again, other = (drawn(labels, [0.3, 0.2, 0.1], 0.05, seed) for seed in (1, 1, 2))
    assert torch.equal(one, again)
    assert not torch.equal(one, other)
    assert torch.equal(torch.get_rng_state(), state)
