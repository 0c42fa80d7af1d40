"""What is left of a sum when links are removed, against every outcome of the coins."""

import itertools

import numpy as np
import pytest
import torch
import torch_geometric.nn as gnn

from varigraph.moments import (
    Gaussian,
    LinkProbabilities,
    Propagation,
    StandIn,
    propagating,
    running,
)
from varigraph.moments.gaussian import ByRows
from varigraph.moments.links_left import LinksLeft


def outcomes(prob):
    """Every outcome of some coins, and its chance."""
    for shown in itertools.product([0.0, 1.0], repeat=len(prob)):
        coins = np.array(shown)
        chance = np.prod(np.where(coins > 0, prob, 1 - prob))
        if chance > 0:
            yield coins, chance


def left_of(coins, weight, values, power):
    """The sum itself; 0 where no link is left."""
    if not coins.any():
        return np.zeros(values.shape[1])
    return (coins[:, None] * values).sum(0) * (coins * weight).sum() ** -power


def expectation(prob, weight, values, power, where=None):
    """Mean and mean square of the sum, or the mean given one coin."""
    first, second, total = 0.0, 0.0, 0.0
    for coins, chance in outcomes(prob):
        if where is None or coins[where[0]] == where[1]:
            y = left_of(coins, weight, values, power)
            first, second = first + chance * y, second + chance * np.outer(y, y)
            total += chance
    return first / total, second / total


def case(degree, kind, seed=0):
    generator = np.random.default_rng([degree, seed])
    prob = generator.uniform(0.05, 1, degree)
    prob[generator.random(degree) < 0.2] = 1.0
    weight = np.exp(2 * generator.normal(size=degree)) if kind == "uneven" else np.ones(degree)
    return prob, weight, generator.normal(size=(degree, 3)) + 2


def left(prob, weight, power, group=None, groups=1):
    group = np.zeros(len(prob), dtype=int) if group is None else group
    tensors = (torch.as_tensor(each) for each in (group, weight, prob))
    return LinksLeft(*tensors, groups, power)


KINDS = [("even", 1.0), ("uneven", 1.0), ("even", 0.5), ("uneven", 0.5)]


@pytest.mark.parametrize(("kind", "power"), KINDS)
@pytest.mark.parametrize("degree", [*range(1, 8), 12])
def test_mean_differences_and_covariance_over_every_outcome(degree, kind, power):
    prob, weight, values = case(degree, kind)
    v = weight[:, None] * values
    found, given = left(prob, weight, power), torch.from_numpy(v)
    mean, square = expectation(prob, weight, v, power)
    assert np.allclose(found.mean(given)[0], mean, rtol=2e-6)
    six_digits = 3e-6 * square.max()  # of what is integrated
    covariance = square - np.outer(mean, mean)
    assert np.allclose(found.covariance(given)[0], covariance, atol=six_digits)
    assert np.allclose(found.variance(given)[0], covariance.diagonal(), atol=six_digits)
    differences = found.differences(given)
    for link in range(degree if degree < 12 else 2):
        if prob[link] < 1:
            ends = [expectation(prob, weight, v, power, (link, b))[0] for b in (1, 0)]
            six_digits = 3e-6 * np.abs(ends).max()
            assert np.allclose(differences[link], ends[0] - ends[1], atol=six_digits)
        else:
            assert not differences[link].any()


@pytest.mark.parametrize("count", [1, 2, 30, 1000, 5000])
@pytest.mark.parametrize("p", [0.03, 0.5, 0.95, 1.0])
def test_equal_chances_have_the_known_weight(count, p):
    found = left(np.full(count, p), np.ones(count), 1.0)
    want = (1 - (1 - p) ** count) / count
    assert np.allclose(found.present, want, rtol=3e-6)


def test_mean_square_of_a_weight():
    prob, weight, _ = case(6, "uneven")
    found = left(prob, weight, 1.0)
    want = sum(
        chance * (coins * weight / max((coins * weight).sum(), 1e-300)) ** 2
        for coins, chance in outcomes(prob)
    )
    assert np.allclose(found.weight.square() * found.square, want, rtol=3e-6)


def test_a_light_link_that_is_left_alone_has_all_the_weight():
    found = left(np.array([0.5, 0.5]), np.array([1.0, 1e-20]), 1.0)
    assert np.allclose(found.shares, [0.5, 0.25], rtol=1e-6)
    differences = found.differences(found.weights[:, None] * torch.tensor([[0.0], [1.0]]).double())
    assert float(differences[0]) == pytest.approx(-0.5, rel=1e-6)  # it takes the weight away


def test_groups_and_heads_do_not_mix():
    cases = [case(4, "uneven", seed) for seed in range(3)]
    prob = np.concatenate([prob for prob, _, _ in cases])
    weight = np.concatenate([np.stack([weight, weight**2], 1) for _, weight, _ in cases])
    values = np.concatenate([np.stack([values, -values], 1) for _, _, values in cases])
    group = np.repeat([2, 0, 3], 4)  # and none in the second
    found = left(prob, weight, 1.0, group, groups=4)
    v = torch.from_numpy(weight[:, :, None] * values)
    mean, differences = found.mean(v), found.differences(v)
    assert not mean[1].any()
    for place, (prob, weight, values) in zip([2, 0, 3], cases, strict=True):
        for head, (w, m) in enumerate([(weight, values), (weight**2, -values)]):
            alone, each = left(prob, w, 1.0), torch.from_numpy(w[:, None] * m)
            assert np.allclose(mean[place, head], alone.mean(each)[0], rtol=2e-6)
            links = torch.from_numpy(group) == place
            assert np.allclose(differences[links, head], alone.differences(each), atol=2e-5)


def test_change_of_a_power_of_the_divisor_where_a_link_is_certain():
    prob, weight = np.array([0.3, 0.8, 1.0]), np.array([1.0, 2.0, 0.5])
    ones = np.array([[0.0], [0.0], [1.0]])
    for power in (0.5, 1.0):
        found = left(prob, weight, power)
        for link in range(2):
            ends = [expectation(prob, weight, ones, power, (link, b))[0] for b in (1, 0)]
            assert float(found.change[link]) == pytest.approx((ends[0] - ends[1]).item(), rel=1e-5)


def test_digits_survive_in_single_precision():
    """Messages that agree to one part in a thousand, of which almost every one comes."""
    generator = np.random.default_rng(0)
    prob, weight = np.full(6, 0.99), np.ones(6)
    values = 1000 + generator.normal(size=(6, 1))
    mean, square = expectation(prob, weight, values - 1000, 1.0)
    none = 0.01**6
    want = square - mean**2 + 1000**2 * none + 2000 * none * mean
    found = LinksLeft(
        torch.zeros(6, dtype=torch.long),
        torch.ones(6),
        torch.full((6,), 0.99),
        1,
    )
    got = found.variance(torch.from_numpy(values).float())
    assert float(got[0]) == pytest.approx(float(want[0, 0]), rel=2e-2)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_links_that_are_there_or_not_for_certain(dtype):
    prob, weight = torch.tensor([0.0, 1.0, 1.0, 0.0]).to(dtype), torch.ones(4, dtype=dtype)
    found = LinksLeft(torch.tensor([0, 0, 0, 1]), weight, prob, 2)
    values = torch.tensor([[5.0], [1.0], [2.0], [7.0]]).to(dtype)
    assert torch.allclose(found.mean(values), torch.tensor([[1.5], [0.0]]).to(dtype), rtol=1e-5)
    assert torch.allclose(found.variance(values), torch.zeros(2, 1).to(dtype), atol=1e-5)


def test_a_mean_in_blocks_of_nodes_is_that_of_all():
    generator = torch.Generator().manual_seed(0)
    pairs = torch.randint(0, 100, (2, 300), generator=generator)
    links = torch.unique(torch.cat([pairs, pairs.flip(0)], 1), dim=1)
    low, high = links.sort(0).values
    _, coin = torch.unique(low * 100 + high, return_inverse=True)
    prob = 0.3 + 0.7 * torch.rand(600, generator=generator).double()[coin]
    mean = torch.randn(100, 4, generator=generator).double()
    x = Gaussian(mean, mean.square())
    layer = gnn.SAGEConv(4, 3).double()
    chances = LinkProbabilities(links, prob, 100, "removed")
    found = []
    with torch.no_grad(), running(layer, by_rules=True), propagating(Propagation(chances)):
        for value in (x, ByRows.of(x, step=32, room=0)):
            found.append(layer(StandIn(value), links).value)
    assert isinstance(found[1], ByRows)
    assert torch.allclose(found[0].mean, found[1].mean)
    assert torch.allclose(found[0].var, found[1].var)


@pytest.mark.parametrize("power", [0.5, 1.0])
def test_a_sum_without_coins_does_not_vary_at_all(power):
    """Beside one that does, and whatever the last digits of its integrals are."""
    prob = np.array([1.0, 1.0, 1.0, 0.5])
    found = left(prob, np.array([1.0, 3.0, 0.7, 1.0]), power, np.array([0, 0, 0, 1]), 2)
    values = torch.tensor([[90.0], [250.0], [61.0], [80.0]]).double()
    variance, covariance = found.variance(values), found.covariance(values)[:, 0]
    assert float(variance[0]) == float(covariance[0]) == 0
    assert float(variance[1]) == pytest.approx(1600, rel=1e-5)
    assert float(covariance[1]) == pytest.approx(1600, rel=1e-5)
