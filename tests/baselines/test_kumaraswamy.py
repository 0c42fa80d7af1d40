import math

import pytest
import torch
from scipy.integrate import quad
from scipy.stats import kstest
from torch.testing import assert_close

from varigraph.baselines.drop_connect_layer import Kumaraswamy

FAILURE_RATE = 1e-6  # share of seeds for which a right sampler fails
SHAPES = [(0.8, 1.0), (1.5, 0.97), (2.0, 3.0), (0.4, 6.0), (7.0, 0.6)]


def of(a, b):
    return Kumaraswamy(torch.tensor(a).double(), torch.tensor(b).double())


def expected(a, b, f):
    """The mean of f(pi, density), integrated over u = pi^a, where the density is well behaved."""

    def integrand(u):
        pi = u ** (1 / a)
        return b * (1 - u) ** (b - 1) * f(pi, a * b * pi ** (a - 1) * (1 - u) ** (b - 1))

    return quad(integrand, 0, 1, limit=400, epsabs=1e-10)[0]


@pytest.mark.parametrize(
    ("a", "b", "value"), [(0.8, 1.0, 0.0), (1.5, 0.97, 0.171526), (2.0, 3.0, 0.248236)]
)
def test_divergence_has_the_known_values(a, b, value):
    assert of(a, b).divergence(0.8).item() == pytest.approx(value, abs=1e-6)


@pytest.mark.parametrize("prior", [0.2, 0.8, 2.5])
@pytest.mark.parametrize(("a", "b"), SHAPES)
def test_divergence_agrees_with_integration(a, b, prior):
    by_hand = expected(a, b, lambda pi, q: math.log(q / (prior * pi ** (prior - 1))))
    assert of(a, b).divergence(prior).item() == pytest.approx(by_hand, rel=1e-6, abs=1e-7)


@pytest.mark.parametrize("prior", [0.8, 2.5])
@pytest.mark.parametrize(("a", "b"), SHAPES)
def test_only_the_prior_itself_has_no_divergence(a, b, prior):
    assert of(prior, 1.0).divergence(prior).abs() < 1e-12
    assert of(a, b).divergence(prior) > 0 or (a, b) == (prior, 1.0)


@pytest.mark.parametrize(("a", "b"), SHAPES)
def test_mean_agrees_with_integration(a, b):
    assert of(a, b).mean.item() == pytest.approx(expected(a, b, lambda pi, _: pi), rel=1e-6)


@pytest.mark.parametrize(("a", "b"), SHAPES)
def test_draws_have_the_distribution(a, b):
    many = Kumaraswamy(torch.full((20_000,), a).double(), torch.full((20_000,), b).double())
    draws = many.sample(torch.Generator().manual_seed(1))
    assert kstest(draws.numpy(), lambda pi: 1 - (1 - pi**a) ** b).pvalue > FAILURE_RATE


@pytest.mark.parametrize(("a", "b"), SHAPES)
def test_gradients_agree_with_finite_differences(a, b):
    def drawn(a, b):
        return Kumaraswamy(a, b).sample(torch.Generator().manual_seed(4))

    shapes = [torch.tensor([value, 1.0]).double().requires_grad_() for value in (a, b)]
    assert torch.autograd.gradcheck(lambda a, b: Kumaraswamy(a, b).divergence(0.8), shapes)
    assert torch.autograd.gradcheck(lambda a, b: Kumaraswamy(a, b).mean, shapes)
    assert torch.autograd.gradcheck(drawn, shapes)


@pytest.mark.parametrize("b", [1e-3, 1.0, 1e3])
@pytest.mark.parametrize("a", [1e-3, 1.0, 1e3])
def test_extreme_shapes_give_chances_with_gradients_in_float32(a, b):
    shapes = [torch.full((50_000,), value).requires_grad_() for value in (a, b)]
    draws = Kumaraswamy(*shapes).sample(torch.Generator().manual_seed(0))
    assert ((draws >= 0) & (draws <= 1)).all()
    draws.sum().backward()
    assert all(shape.grad.isfinite().all() for shape in shapes)


def test_the_generator_decides():
    one, same, other = (of(1.5, 0.9).sample(torch.Generator().manual_seed(s)) for s in (1, 1, 2))
    assert_close(one, same, rtol=0, atol=0)
    assert one != other
