"""Values linear in the features: every chain of steps against one dense matrix."""

import itertools
import math
from dataclasses import dataclass, field

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from varigraph.errors import TooLargeError
from varigraph.moments import LinkProbabilities
from varigraph.moments.affine import Affine
from varigraph.moments.input_noise import InputNoise
from varigraph.moments.neighbours import neighbours_of
from varigraph.sparse import Sparse

NODES, FEATURES = 5, 3
MEMORY = 2**20


def random(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed)).double()


@dataclass(eq=False)
class CertainLinks:
    """Links without coins: the least that a sum asks for."""

    expected: Sparse
    target: Tensor

    def returned(self, inner):
        return torch.zeros_like(self.expected.values)


def links_of(dense):
    target, source = dense.nonzero().T
    matrix = Sparse(target, source, dense[target, source], tuple(dense.shape))
    return CertainLinks(matrix, target)


@dataclass(eq=False)
class Both:
    """The same value twice: as the package has it, and as a dense matrix that maps all features.

    ``jacobian[u, o, w, k]`` is the response of output o at node u to feature k at node w.
    """

    value: Affine
    jacobian: Tensor
    links: list[tuple[CertainLinks, Tensor]] = field(default_factory=list)

    def _next(self, value, jacobian):
        return Both(value, jacobian, self.links)

    def mapped(self, seed):
        weight = random(seed % 4 + 1, self.value.mean.shape[1], seed=seed)
        mean = self.value.mean @ weight.T
        return self._next(
            self.value.mapped(weight, mean), torch.einsum("oh,uhwk->uowk", weight, self.jacobian)
        )

    def scaled(self, seed):
        slope = random(self.value.mean.shape[1], seed=seed)
        value = self.value.scaled(slope, self.value.mean * slope)
        return self._next(value, self.jacobian * slope[:, None, None])

    def summed(self, seed):
        links, dense = self.links[seed % len(self.links)]
        mean = dense @ self.value.mean
        value = self.value.summed(links, mean, torch.zeros_like(mean))
        return self._next(value, torch.einsum("uv,vowk->uowk", dense, self.jacobian))

    def plus(self, other, alpha):
        value = self.value.plus(other.value, alpha, self.value.mean + alpha * other.value.mean)
        return self._next(value, self.jacobian + alpha * other.jacobian)


def start(var):
    """The features themselves, and two adjacency matrices to sum over."""
    kept = [random(NODES, NODES, seed=seed) > 0.3 for seed in (1, 2)]
    dense = [random(NODES, NODES, seed=seed + 2) * k for seed, k in zip((1, 2), kept, strict=True)]
    noise = InputNoise.of(var.expand(NODES, FEATURES), MEMORY)
    x = Affine.features(random(NODES, FEATURES), noise)
    jacobian = torch.eye(NODES * FEATURES).double().view(NODES, FEATURES, NODES, FEATURES)
    return Both(x, jacobian, [(links_of(d), d) for d in dense])


def assert_exact(both, var):
    jacobian, var = both.jacobian.flatten(2), var.expand(NODES, FEATURES).flatten()
    covariance = jacobian * var @ jacobian.mT
    assert torch.allclose(both.value.covariance, covariance, rtol=1e-9, atol=1e-11)
    variance = covariance.diagonal(dim1=1, dim2=2)
    assert torch.allclose(both.value.from_features, variance, rtol=1e-9, atol=1e-11)
    assert torch.allclose(both.value.var, variance, rtol=1e-9, atol=1e-11)


NOISE = {
    "number": torch.tensor(0.7).double(),
    "by feature": torch.tensor([0.1, 0.0, 2.0]).double(),
    "by node": torch.tensor([0.3, 0.0, 1.0, 0.2, 3.0]).double()[:, None],
    "product": torch.outer(torch.arange(1, 6), torch.arange(3)).double(),
}
STEPS = ("mapped", "scaled", "summed")


@pytest.mark.parametrize("noise", NOISE)
@settings(max_examples=25, deadline=None)
@given(chain=st.lists(st.tuples(st.sampled_from(STEPS), st.integers(0, 50)), max_size=5))
def test_chains_of_steps(noise, chain):
    both = start(NOISE[noise])
    for step, seed in chain:
        both = getattr(both, step)(seed)
    assert_exact(both, NOISE[noise])


ways = st.lists(st.tuples(st.sampled_from(("scaled", "summed")), st.integers(0, 50)), max_size=3)


@pytest.mark.parametrize("noise", NOISE)
@settings(max_examples=25, deadline=None)
@given(before=ways, one=ways, two=ways, after=ways, alpha=st.floats(-2, 2))
def test_two_ways_that_meet_keep_their_correlation(noise, before, one, two, after, alpha):
    """A residual connection: both ways start from the same value and end in one sum."""

    def walked(both, way):
        for step, seed in way:
            both = getattr(both, step)(seed)
        return both

    first = walked(start(NOISE[noise]), before)
    both = walked(first, one).plus(walked(first, two), alpha)
    assert_exact(walked(both, after).mapped(7), NOISE[noise])


def test_a_value_minus_itself_has_no_variance():
    both = start(NOISE["number"]).summed(0).mapped(3)
    assert not both.plus(both, -1.0).value.var.any()


def test_steps_leave_the_value_before_them_alone():
    both = start(NOISE["by node"]).summed(0).mapped(3)
    before = both.value.covariance.clone()
    both.plus(both.scaled(1), 0.5).summed(1)
    assert_exact(both, NOISE["by node"])
    assert torch.equal(both.value.covariance, before)


def test_little_memory_gives_the_same_and_too_little_is_said():
    variances = []
    for memory in (MEMORY, 1500):
        both = start(NOISE["by node"])
        both.value.noise.memory = memory
        variances.append(both.summed(0).summed(1).value.from_features)
    assert torch.allclose(*variances, rtol=1e-12)
    both = start(NOISE["by node"])
    both.value.noise.memory = 100
    with pytest.raises(TooLargeError, match="walks, which need"):
        both.summed(0).value.from_features  # noqa: B018 - asked for, it is computed


# ---- variance from other sources ----


def test_other_sources_pass_as_independent_numbers():
    x = start(NOISE["number"]).value
    added, weight, slope = random(5, 3, seed=8).square(), random(4, 3), random(3)
    spread = x.spread_by(added)
    assert torch.allclose(spread.var, 0.7 + added)
    assert torch.allclose(spread.from_features, x.from_features)
    mapped = spread.mapped(weight, x.mean @ weight.T)
    want = torch.einsum("oh,nh->no", weight.square(), added)
    assert torch.allclose(mapped.extra, want)
    assert torch.allclose(spread.scaled(slope, x.mean * slope).extra, added * slope**2)
    both = spread.plus(x.spread_by(2 * added), -0.5, x.mean / 2)
    assert torch.allclose(both.extra, added + 0.25 * 2 * added)


# ---- one coin that is met twice ----

CHANCES = (0.6, 0.9, 0.5)


def uncertain_path():
    """Nodes 0-1-2-3 in a row; each link has a coin for both of its directions."""
    there = torch.tensor([[0, 1, 2], [1, 2, 3]])
    edge_index, prob = (
        torch.cat([there, there.flip(0)], 1),
        torch.tensor(CHANCES * 2, dtype=torch.float64),
    )
    links = LinkProbabilities(edge_index, prob, 4)
    return neighbours_of(edge_index, None, 4, dtype=torch.float64, average=True, links=links)


def drawn_averages():
    """All matrices that the coins can give, with their chances; the divisors stay."""
    degrees = torch.tensor([1.0, 2.0, 2.0, 1.0]).double()
    for coins in itertools.product([1, 0], repeat=3):
        matrix = torch.diag(torch.tensor(coins).double(), 1)
        chances = (p if coin else 1 - p for coin, p in zip(coins, CHANCES, strict=True))
        yield (matrix + matrix.T) / degrees[:, None], math.prod(chances)


def test_walks_there_and_back_count_their_coin_once():
    """The mean of S S differs from the square of the mean of S: a coin times itself is the coin."""
    var = torch.tensor([[0.5], [1.0], [2.0], [0.1]]).double()
    links, weight = uncertain_path(), random(2, 3)
    x = Affine.features(random(4, 3), InputNoise.of(var.expand(4, 3), MEMORY))
    zeros = torch.zeros(4, 3).double()
    hidden = x.summed(links, zeros, zeros).mapped(weight, zeros[:, :2])
    twice = hidden.summed(links, zeros[:, :2], zeros[:, :2])
    expected = sum(chance * matrix @ matrix for matrix, chance in drawn_averages())
    mean = sum(chance * matrix for matrix, chance in drawn_averages())
    assert not torch.allclose(expected, mean @ mean)
    size = (expected.square() @ var)[:, 0]
    want = size[:, None, None] * (weight @ weight.T)
    assert torch.allclose(twice.covariance, want, rtol=1e-9)


# ---- the noise itself ----


@pytest.mark.parametrize("noise", NOISE)
def test_noise_is_written_as_a_product(noise):
    var = NOISE[noise].expand(NODES, FEATURES)
    found = InputNoise.of(var, MEMORY)
    assert (found.node.shape, found.feature.shape) == ((NODES, 1), (FEATURES,))
    assert torch.allclose(found.node * found.feature, var)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("scale", [0.0, 1e-20, 1.0, 1e20])
def test_a_full_matrix_of_rank_one_is_a_product(dtype, scale):
    node, feature = torch.tensor([0.3, 0.0, 1.0]), torch.tensor([2.0, 0.5, 0.0, 1.0])
    var = scale * torch.outer(node, feature).to(dtype)
    found = InputNoise.of(var, MEMORY)
    assert not found.by_feature
    assert torch.allclose(found.node * found.feature, var, rtol=1e-5, atol=0)


@pytest.mark.parametrize(
    "var",
    [
        torch.eye(3),
        torch.tensor([[1.0, 1.0], [1.0, 1.001]]),
        torch.tensor([[1.0, 0.0], [1.0, 1e-9]]),
        torch.rand(6, 4, generator=torch.Generator().manual_seed(0)),
    ],
)
def test_noise_that_is_no_product_is_kept_as_it_is(var):
    found = InputNoise.of(var, MEMORY)
    assert found.by_feature
    assert torch.equal(found.node * found.feature, var)
