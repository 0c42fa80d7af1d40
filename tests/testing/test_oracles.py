"""The judges are judged first: by values known from elsewhere, or worked out by hand."""

import math

import pytest
import torch
from scipy import stats

from varigraph.testing import jacobian, quadrature, sampling

#: Chance that a statistical test here fails although nothing is wrong, for any one seed.
FAILURE_RATE = 1e-6
RELU = [
    ((0.0, 1.0), (0.398942, 0.340845)),
    ((1.0, 1.0), (1.083315, 0.751088)),
    ((-1.0, 1.0), (0.083315, 0.068398)),
    ((1.0, 4.0), (1.395593, 2.213763)),
]


def vector(*values):
    return torch.tensor(values, dtype=torch.float64)


def linear_map(x):  # [2] -> [2]
    return x @ vector(1.0, 2.0, 3.0, 4.0).view(2, 2).T + vector(0.5, -0.5)


# ---- quadrature ----


@pytest.mark.parametrize(("given", "want"), RELU)
def test_quadrature_has_the_reference_values_of_relu(given, want):
    found = quadrature(torch.relu, *map(vector, given))
    assert (found.mean.item(), found.var.item()) == pytest.approx(want, abs=1e-6)


def test_quadrature_has_the_moments_of_a_lognormal():
    mean, var = 0.3, 0.5
    found = quadrature(torch.exp, vector(mean), vector(var))
    assert found.mean.item() == pytest.approx(math.exp(mean + var / 2), rel=1e-10)
    want = math.expm1(var) * math.exp(2 * mean + var)
    assert found.var.item() == pytest.approx(want, rel=1e-10)


@pytest.mark.parametrize("kink", [-3.0, 2.0])
def test_quadrature_finds_a_kink_elsewhere(kink):
    found = quadrature(lambda x: (x - kink).abs(), vector(kink), vector(4.0), kink=kink)
    assert found.mean.item() == pytest.approx(2 * math.sqrt(2 / math.pi), rel=1e-10)
    assert found.var.item() == pytest.approx(4 * (1 - 2 / math.pi), rel=1e-10)


def test_quadrature_of_certain_numbers_is_the_function_itself():
    found = quadrature(torch.relu, vector(-1.0, 2.0), vector(0.0, 0.0))
    assert found.mean.tolist() == [0.0, 2.0]
    assert found.var.tolist() == [0.0, 0.0]


def test_quadrature_keeps_the_shape():
    found = quadrature(torch.tanh, torch.zeros(2, 3), torch.ones(2, 3))
    assert found.mean.shape == found.var.shape == (2, 3)


# ---- Jacobian ----


def test_jacobian_agrees_with_a_map_worked_out_by_hand():
    found = jacobian(linear_map, vector(1.0, -1.0), vector(0.5, 2.0))
    assert found.mean.tolist() == [1 - 2 + 0.5, 3 - 4 - 0.5]
    assert found.var.tolist() == [1 * 0.5 + 4 * 2, 9 * 0.5 + 16 * 2]


def test_jacobian_sees_a_number_that_is_used_twice():
    found = jacobian(lambda x: x[..., :1] + x[..., :1], vector(3.0, 7.0), vector(0.25, 9.0))
    assert (found.mean.item(), found.var.item()) == (6.0, 4 * 0.25)


# ---- sampling ----


@pytest.mark.parametrize("function", [linear_map, torch.relu, torch.tanh])
def test_sampling_is_within_its_own_standard_errors(function):
    mean, var = vector(0.2, -0.7), vector(0.5, 2.0)
    truth = (jacobian if function is linear_map else quadrature)(function, mean, var)
    found = sampling(function, mean, var, samples=5000, seed=1)
    scores = torch.cat(
        [
            (found.mean - truth.mean) / found.mean_error,
            (found.var - truth.var) / found.var_error,
        ]
    )
    assert float(scores.abs().max()) < stats.norm.isf(FAILURE_RATE / 2 / len(scores))


def test_standard_errors_are_those_of_a_normal():
    found = sampling(lambda x: x, vector(0.0), vector(4.0), samples=5000)
    assert found.mean_error.item() == pytest.approx(math.sqrt(4 / 5000), rel=0.1)
    assert found.var_error.item() == pytest.approx(4 * math.sqrt(2 / 5000), rel=0.2)


def test_sampling_depends_on_its_seed_and_leaves_the_global_random_state():
    before = torch.get_rng_state()
    first, again, other = (
        sampling(torch.relu, vector(0.0), vector(1.0), samples=50, seed=seed) for seed in (3, 3, 4)
    )
    assert torch.equal(before, torch.get_rng_state())
    assert first.mean == again.mean
    assert first.mean != other.mean
