import math
from dataclasses import replace
from itertools import combinations

import pytest
import torch
from torch.testing import assert_close

from baselines.block_models import generator, log_likelihood, random_blocks, random_links
from varigraph.baselines.block_model import BlockNeighbours, Blocks, block_gradient, pair_likelihood


def full_gradient(blocks, links):
    everybody = torch.arange(links.nodes)
    neighbours = BlockNeighbours(links.pairs, nodes=links.nodes)
    return block_gradient(blocks, neighbours, rows=everybody, partners=everybody)


def slopes(function, value, step=1e-5):
    """Central differences of a function of a tensor, in the logarithm of each entry."""
    result = torch.empty_like(value)
    for place in range(value.numel()):
        ends = []
        for sign in (1, -1):
            moved = value.clone()
            moved.view(-1)[place] *= math.exp(sign * step)
            ends.append(function(moved))
        result.view(-1)[place] = (ends[0] - ends[1]) / (2 * step)
    return result


def test_the_pair_likelihood_is_the_sum_over_all_roles():
    blocks, links = random_blocks(9, 3), random_links(9)
    linked = set(map(tuple, links.pairs.t().tolist()))
    members, total = blocks.memberships, 0.0
    for a, b in combinations(range(9), 2):
        seen = pair_likelihood(blocks, members[[a]], members[[b]], linked=(a, b) in linked)
        total += float(seen.log())
    assert total == pytest.approx(log_likelihood(blocks, links), rel=1e-12)


def test_linked_or_not_one_of_the_two_is_the_case():
    blocks = random_blocks(9, 4)
    one, two = blocks.memberships[:4], blocks.memberships[5:]
    both = [pair_likelihood(blocks, one, two, linked=linked) for linked in (True, False)]
    assert_close(both[0] + both[1], torch.ones(4).double())


@pytest.mark.parametrize(("classes", "density"), [(2, 0.3), (4, 0.5), (3, 0.0), (3, 1.0)])
def test_the_gradient_is_the_slope_of_the_log_likelihood(classes, density):
    blocks, links = random_blocks(8, classes, seed=classes), random_links(8, density)
    gradient = full_gradient(blocks, links)
    shares = slopes(lambda v: log_likelihood(replace(blocks, shares=v), links), blocks.shares)
    counts = slopes(lambda v: log_likelihood(replace(blocks, counts=v), links), blocks.counts)
    assert_close(gradient.shares, shares, rtol=1e-6, atol=1e-6)
    assert_close(gradient.counts, counts, rtol=1e-6, atol=1e-6)
    assert counts.abs().max() > 0.1


def test_densities_of_pure_classes_are_stationary():
    links, label = random_links(30, 0.4), torch.arange(30) % 2
    one, two = label[links.pairs]
    inside = torch.bincount(one[one == two], minlength=2)
    counts = torch.stack([15 * 14 // 2 - inside, inside], dim=1).double()
    # Members of one class alone; the rest is too small to matter and keeps the logarithm finite.
    pure = torch.nn.functional.one_hot(label, 2).double().clamp_min(1e-13)
    at_rest = full_gradient(Blocks(pure, counts, 0.2), links).counts
    elsewhere = full_gradient(Blocks(pure, counts * torch.tensor([1.0, 1.2]), 0.2), links).counts
    assert at_rest.abs().max() < 1e-8
    assert (elsewhere[:, 1] < -1).all()
    assert (elsewhere[:, 0] > 1).all()


def test_memberships_do_not_matter_where_all_strengths_are_the_same():
    blocks, links = random_blocks(20, 3), random_links(20)
    same = torch.tensor([[0.93, 0.07]], dtype=torch.double).expand(3, 2)
    assert full_gradient(blocks, links).shares.abs().max() > 1
    assert full_gradient(replace(blocks, counts=same), links).shares.abs().max() < 1e-10


def test_a_gradient_of_some_rows_and_partners_is_right_on_average():
    nodes, draws, draw = 40, 4000, generator(5)
    blocks, links = random_blocks(nodes, 3, across=0.2, seed=7), random_links(nodes, 0.25)
    neighbours = BlockNeighbours(links.pairs, nodes=nodes)
    full, shares, counts = full_gradient(blocks, links), [], []
    for _ in range(draws):
        rows, partners = (torch.randperm(nodes, generator=draw)[:count] for count in (10, 8))
        some = block_gradient(blocks, neighbours, rows=rows, partners=partners)
        moved = torch.full_like(blocks.shares, torch.nan)
        moved[rows] = some.shares
        shares.append(moved)
        counts.append(some.counts)
    for drawn, truth in ((shares, full.shares), (counts, full.counts)):
        values = torch.stack(drawn)
        seen = values.isfinite().sum(dim=0)
        mean = values.nanmean(dim=0)
        std = (values - mean).square().nansum(dim=0).div(seen - 1).sqrt()
        score = (mean - truth) / (std / seen.sqrt())
        assert std.min() > 0
        # Independent figures would exceed 4.5 once in 150,000; there are 126 of them.
        assert score.abs().max() < 4.5


def test_renamed_classes_have_the_renamed_gradient():
    blocks, links, order = random_blocks(12, 4), random_links(12), torch.tensor([2, 0, 3, 1])
    renamed = Blocks(blocks.shares[:, order], blocks.counts[order], blocks.across)
    gradient, again = full_gradient(blocks, links), full_gradient(renamed, links)
    assert_close(again.shares, gradient.shares[:, order])
    assert_close(again.counts, gradient.counts[order])
