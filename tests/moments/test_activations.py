"""Reference values, computed by hand or by quadrature elsewhere."""

import itertools
import math

import pytest
import torch
from scipy.integrate import quad
from scipy.stats import norm
from torch.nn import functional as F

from varigraph.errors import MissingRuleError, ModelError
from varigraph.moments import Gaussian, Propagation, propagating
from varigraph.moments.tape import Tape
from varigraph.testing import quadrature

# (mean, var) -> (mean, var) of the rectified Gaussian
RELU = {
    (0, 1): (0.398942, 0.340845),
    (1, 1): (1.083315, 0.751088),
    (-1, 1): (0.083315, 0.068398),
    (1, 4): (1.395593, 2.213763),
}


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("given", RELU)
def test_relu_reference_values(given, dtype):
    got = F.relu(Gaussian(*(torch.tensor([float(g)], dtype=dtype) for g in given)))
    assert (got.mean.item(), got.var.item()) == pytest.approx(RELU[given], abs=2e-6)


def test_relu_keeps_its_digits_far_from_the_kink():
    got = F.relu(Gaussian(torch.tensor([1000.0]), torch.tensor([0.01])))
    assert (got.mean.item(), got.var.item()) == pytest.approx((1000.0, 0.01), rel=1e-6)


FUNCTIONS = [
    F.relu,
    F.elu,
    F.gelu,
    F.silu,
    torch.tanh,
    torch.sigmoid,
    F.softplus,
    F.mish,
    F.softsign,
    F.relu6,
    F.hardswish,
    F.hardshrink,
    torch.abs,
    torch.sin,
]


@pytest.mark.parametrize("function", FUNCTIONS)
@pytest.mark.parametrize("mean", [-1e4, 0.0, 1e4])
@pytest.mark.parametrize("var", [0.0, 1e-30, 1e6, 1e8])
def test_nothing_breaks_at_extremes(function, mean, var):
    got = function(Gaussian(torch.tensor([mean]), torch.tensor([var])))
    assert bool(got.mean.isfinite().all() & got.var.isfinite().all())
    assert got.var.item() >= 0
    if var == 0:
        assert got.mean.item() == pytest.approx(function(torch.tensor(mean)).item(), abs=1e-6)


@pytest.mark.parametrize("function", FUNCTIONS)
def test_batches_of_masks_are_those_of_single_ones(function):
    """With tails so wide, and others so narrow, that rules take all of their ways."""

    def moments(mean, var):
        got = function(Gaussian(mean, var))
        return got.mean, got.var

    grid = itertools.product([-40.0, -1.0, 0.0, 3.0], [0.0, 1e-6, 1.0, 1e4])
    mean, var = torch.tensor(list(grid)).T.reshape(2, 2, 8, 1)
    for found, want in zip(torch.vmap(moments)(mean, var), moments(mean, var), strict=True):
        torch.testing.assert_close(found, want)


def by_adaptive_integration(mean, std):
    """Mean and variance of an ELU, the parts above and below 0 by scipy, lifted by 1."""

    def moment(power):
        def above(x):
            return (x + 1) ** power * norm.pdf(x, mean, std)

        def below(x):
            return math.exp(power * x) * norm.pdf(x, mean, std)

        split = {"epsabs": 0, "epsrel": 1e-10, "limit": 500}
        upper = max(mean, 0) + 12 * std
        peak = min(mean + power * std**2, 0)  # of the density, tilted by the exponential
        width = min(std, 1.0) if peak == 0 else std
        lower = [peak - 40 * width, peak - 5 * width, peak, min(peak + 12 * width, 0)]
        parts = [quad(below, a, b, **split)[0] for a, b in itertools.pairwise(lower) if b > a]
        return quad(above, 0, upper, **split)[0] + sum(parts)

    first, second = moment(1), moment(2)
    return first - 1, second - first**2


@pytest.mark.parametrize(
    ("mean", "std"),
    [(-9000.0, 1000.0), (-9.0, 1.0), (-12.0, 1.4), (-40.0, 4.0), (-85.0, 10.0), (-7.9, 1.0)],
)
def test_elu_keeps_its_digits_far_below_the_kink(mean, std):
    x = Gaussian(torch.tensor([mean]).double(), torch.tensor([std**2]).double())
    got, expected = F.elu(x), by_adaptive_integration(mean, std)
    assert got.mean.item() == pytest.approx(expected[0], rel=1e-9, abs=0)
    assert got.var.item() == pytest.approx(expected[1], rel=1e-5, abs=0)


@pytest.mark.parametrize("mean", [-300.0, 0.0, 60.0])
@pytest.mark.parametrize("var", [0.0, 1e-30, 1.0])
def test_exponentials_stay_finite_as_long_as_their_mean_does(mean, var):
    got = torch.exp(Gaussian(torch.tensor([mean]), torch.tensor([var])))
    assert bool(got.mean.isfinite())
    assert got.var.item() >= 0
    assert var > 0 or got.var.item() == 0


def test_bounds_that_cross_give_the_upper_one_as_in_torch():
    x = torch.linspace(-3, 3, 5)
    got = Gaussian(x, torch.ones(5)).clamp(2.0, 1.0)
    assert torch.allclose(got.mean, x.clamp(2.0, 1.0))
    assert float(got.var.max()) < 1e-12


def test_bounds_of_their_own_for_each_number_are_refused():
    x = Gaussian(torch.zeros(3), torch.ones(3))
    with pytest.raises(MissingRuleError, match="bounds that are numbers"):
        x.clamp(torch.zeros(3), torch.ones(3))
    assert torch.equal(x.clamp(min=torch.tensor(0.5)).mean, x.clamp(min=0.5).mean)


def test_slopes_drawn_in_training_are_refused():
    with pytest.raises(ModelError, match="draws its slopes"):
        F.rrelu(Gaussian(torch.zeros(3), torch.ones(3)), training=True)


SLOPED = torch.tensor([0.0, 0.25, -1.0], dtype=torch.float64)


def test_slopes_learnt_for_each_channel():
    """At each column the moments of a leaky ReLU of that slope, by quadrature."""
    x = Gaussian(torch.linspace(-2, 2, 12).double().view(4, 3), torch.full((4, 3), 0.7).double())
    got = torch.prelu(x, SLOPED)
    for column, slope in enumerate(SLOPED.tolist()):
        truth = quadrature(
            lambda v, s=slope: torch.where(v > 0, v, s * v), x.mean[:, column], x.var[:, column]
        )
        assert torch.allclose(got.mean[:, column], truth.mean)
        assert torch.allclose(got.var[:, column], truth.var)


@pytest.mark.parametrize(("mean", "std"), [(0.3, 0.5), (-2.0, 1.0), (1.5, 4.0), (-30.0, 20.0)])
@pytest.mark.parametrize("alpha", [1.0, 0.4])
def test_slope_and_bend_of_an_elu(mean, std, alpha):
    def below(k):
        return quad(lambda v: math.exp(k * v) * norm.pdf(v, mean, std), mean - 40 * std, 0)[0]

    slope, bend = _slope_and_bend(lambda x: F.elu(x, alpha), mean, std)
    assert slope == pytest.approx(norm.sf(0, mean, std) + alpha * below(1), rel=1e-6)
    kink = (1 - alpha) * norm.pdf(0, mean, std)
    assert bend == pytest.approx(alpha * below(1) + kink, rel=1e-6)


@pytest.mark.parametrize(("mean", "std"), [(0.3, 0.5), (-2.0, 1.0), (6.0, 0.5)])
@pytest.mark.parametrize("lower", [0.0, 0.2, -1.0])
def test_slope_and_bend_of_two_lines(mean, std, lower):
    function = {0.0: F.relu, -1.0: torch.abs}.get(lower, lambda x: F.leaky_relu(x, lower))
    slope, bend = _slope_and_bend(function, mean, std)
    assert slope == pytest.approx(lower + (1 - lower) * norm.sf(0, mean, std), rel=1e-9)
    assert bend == pytest.approx((1 - lower) * norm.pdf(0, mean, std), rel=1e-9)


def test_a_certain_number_at_the_kink_does_not_bend():
    slope, bend = _slope_and_bend(F.relu, 0.0, 0.0)
    assert (slope, bend) == (0.5, 0.0)


def _slope_and_bend(function, mean, std):
    tape = Tape()
    with propagating(Propagation(tape=tape)):
        mean, var = (torch.tensor([[v]], dtype=torch.float64) for v in (mean, std**2))
        function(Gaussian(mean, var))
    ((_, operator),) = tape.entries[-1].parents
    return operator.factor.item(), tape.bends[-1].curvature.item()
