"""Class probabilities are probabilities, whatever the logits."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from varigraph.errors import MissingRuleError
from varigraph.moments import Gaussian
from varigraph.moments.softmax import MEDIUM, SMALL, class_probabilities, normal_points


def probabilities(mean, var, masks=1):
    logits = Gaussian(mean.expand(masks, 1, -1), var.expand(masks, 1, -1))
    return class_probabilities(logits, normal_points(masks, mean.shape[-1]))


def test_two_equal_logits_of_variance_one():
    got = probabilities(torch.zeros(2).double(), torch.ones(2).double())
    assert got.mean.flatten().tolist() == pytest.approx([0.5, 0.5])
    assert got.var.flatten().tolist() == pytest.approx([0.0684, 0.0684], abs=3e-4)


def brute_force(mean, var, samples=400_000):
    draws = np.random.default_rng(0).normal(mean, np.sqrt(var), (samples, len(mean)))
    shares = np.exp(draws - draws.max(1, keepdims=True))
    shares /= shares.sum(1, keepdims=True)
    return shares.mean(0), shares.var(0)


@pytest.mark.parametrize("masks", [1, 100])
@pytest.mark.parametrize(("spread", "off"), [(0.01, 1e-4), (1.0, 0.005), (9.0, 0.03)])
@pytest.mark.parametrize("seed", range(3))
def test_agrees_with_brute_force(masks, spread, off, seed):
    generator = np.random.default_rng(seed)
    mean, var = generator.normal(0, 1.5, 7), spread * generator.uniform(0.5, 1.5, 7)
    want_mean, want_var = brute_force(mean, var)
    got = probabilities(torch.from_numpy(mean), torch.from_numpy(var), masks)
    assert got.mean.mean(0)[0].numpy() == pytest.approx(want_mean, abs=off)
    assert got.var.mean(0)[0].numpy() == pytest.approx(want_var, rel=0.05, abs=off)


def test_small_variances_follow_the_jacobian():
    mean, var = (
        torch.randn(5, generator=torch.Generator().manual_seed(0)).double(),
        torch.ones(5) * 1e-8,
    )
    slope = torch.autograd.functional.jacobian(lambda z: z.softmax(-1), mean)
    got = probabilities(mean, var.double(), masks=50)
    assert torch.allclose(got.var[0, 0], slope.square() @ var.double(), rtol=1e-4)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize(
    ("largest", "masks", "off", "ratio"),
    [(SMALL, 1, 1e-6, 0.007), (SMALL, 100, 1e-6, 0.007), (MEDIUM, 1, 1e-5, 0.012)],
)
def test_little_spread_needs_no_or_few_points(largest, masks, off, ratio, seed):
    generator = np.random.default_rng(seed)
    mean, var = generator.normal(0, 3, 5), largest * generator.uniform(0.1, 1, 5)
    nodes, weights = np.polynomial.hermite_e.hermegauss(7)
    grid = np.stack(np.meshgrid(*[nodes] * 5), -1).reshape(-1, 5)
    chance = np.prod(np.stack(np.meshgrid(*[weights / weights.sum()] * 5), -1), -1).ravel()
    shares = np.exp(mean + np.sqrt(var) * grid)
    shares /= shares.sum(1, keepdims=True)
    want = chance @ shares
    want_var = chance @ (shares - want) ** 2
    got = probabilities(torch.from_numpy(mean), torch.from_numpy(var), masks)
    assert got.mean.mean(0)[0].numpy() == pytest.approx(want, abs=off)
    assert got.var.mean(0)[0].numpy() == pytest.approx(want_var, rel=ratio)


def test_a_nearly_certain_answer_keeps_its_digits():
    mean = torch.tensor([20.0, 0.0, -1.0])
    var = torch.full((3,), 1e-3)
    got = probabilities(mean, var)
    exact = probabilities(mean.double(), var.double())
    assert torch.allclose(got.var.double(), exact.var, rtol=1e-4, atol=0)


def test_rows_of_both_kinds():
    mean = torch.randn(1, 6, 3, generator=torch.Generator().manual_seed(0)).double()
    var = torch.tensor([1e-4, 1.0, 0.01, 0.5, 2.0, 0.0]).double()[None, :, None].expand(1, 6, 3)
    points = normal_points(1, 3)
    whole = class_probabilities(Gaussian(mean, var), points)
    for row in range(6):
        alone = class_probabilities(Gaussian(mean[:, [row]], var[:, [row]]), points)
        assert torch.allclose(whole.mean[:, [row]], alone.mean, rtol=1e-12)
        assert torch.allclose(whole.var[:, [row]], alone.var, rtol=1e-12)


extreme = st.floats(-1e4, 1e4, allow_nan=False, width=32)


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.tuples(extreme, st.floats(0, 1e8, width=32)), min_size=2, max_size=12),
    st.sampled_from([torch.float32, torch.float64]),
    st.sampled_from([1, 30]),
)
def test_any_logits_give_probabilities(logits, dtype, masks):
    mean, var = torch.tensor(logits, dtype=dtype).T
    got = probabilities(mean, var, masks)
    small = 1e-5 if dtype == torch.float32 else 1e-12
    assert bool(got.mean.isfinite().all() & got.var.isfinite().all())
    assert torch.allclose(got.mean.sum(-1), torch.ones((), dtype=dtype), atol=10 * small)
    assert bool((got.mean >= 0).all() & (got.var >= 0).all())
    assert bool((got.var <= got.mean * (1 - got.mean) + small).all())


@pytest.mark.parametrize(("masks", "classes"), [(1, 7), (100, 7), (100, 47), (3, 300)])
def test_points_are_white(masks, classes):
    points = normal_points(masks, classes)
    assert float(points.mean(1).abs().max()) < 1e-12
    covariance = points.mT @ points / points.shape[1]
    assert torch.allclose(covariance, torch.eye(classes).double(), atol=1e-9)


def test_softmax_over_another_axis_is_refused():
    with pytest.raises(MissingRuleError, match="dim=0"):
        torch.softmax(Gaussian(torch.zeros(3, 2), torch.zeros(3, 2)), dim=0)
