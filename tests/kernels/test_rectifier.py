import numpy as np
import pytest
import torch
from scipy import integrate, stats

pytest.importorskip("triton")

from varigraph.kernels.rectifier import rectified, rectified_with_slopes


def by_quadrature(mean, std):
    """Mean and variance of max(x, 0), centred so that nothing cancels."""
    normal = stats.norm(mean, std)
    ends = max(0.0, mean - 12 * std), max(0.0, mean + 12 * std)

    def moment(power, centre):
        inside = integrate.quad(
            lambda x: (x - centre) ** power * normal.pdf(x),
            *ends,
            epsabs=0,
            epsrel=1e-10,
            limit=200,
        )[0]
        return inside + (0 - centre) ** power * normal.cdf(0)

    first = moment(1, 0.0)
    return first, moment(2, first)


@pytest.mark.parametrize("std", [0.01, 1.0, 30.0])
@pytest.mark.parametrize("ratio", [-6.0, -2.5, -0.3, 0.0, 0.7, 3.0, 8.0])
def test_moments_are_those_of_quadrature(ratio, std):
    mean, var = rectified(torch.tensor([ratio * std]), torch.tensor([std**2]))
    first, second = by_quadrature(ratio * std, std)
    # Below zero both moments are differences of larger numbers, of the size of the density.
    room = stats.norm.pdf(ratio) if ratio < 0 else 0.0
    assert mean.item() == pytest.approx(first, rel=2e-6, abs=1e-6 * room * std)
    assert var.item() == pytest.approx(second, rel=5e-6, abs=3e-5 * room * std**2)


@pytest.mark.parametrize("std", [0.01, 1.0, 30.0])
def test_slopes_are_the_chance_to_be_positive_and_the_density_there(std):
    ratio = torch.linspace(-6, 6, 1_501)
    mean, var = ratio * std, torch.full_like(ratio, std**2)
    *moments, slope, half = rectified_with_slopes(mean, var)
    for one, other in zip(moments, rectified(mean, var), strict=True):
        torch.testing.assert_close(one, other, rtol=0, atol=0)
    exact = (mean / var.sqrt()).double().numpy()  # as the kernel is given it
    np.testing.assert_allclose(slope, stats.norm.cdf(exact), rtol=2e-6, atol=1e-7)
    np.testing.assert_allclose(half, stats.norm.pdf(exact) / (2 * std), rtol=1e-5)


def test_slopes_of_certain_values_are_finite_and_steps():
    *_, slope, half = rectified_with_slopes(torch.tensor([-2.0, 0.0, 3.0]), torch.zeros(3))
    torch.testing.assert_close(slope, torch.tensor([0.0, 0.5, 1.0]))
    assert (half == 0).all()


def test_certain_values_are_rectified_and_stay_certain():
    mean, var = rectified(torch.tensor([-2.0, 0.0, 3.0]), torch.zeros(3))
    torch.testing.assert_close(mean, torch.tensor([0.0, 0.0, 3.0]))
    assert (var == 0).all()


@pytest.mark.parametrize("dims", [(0, 0), (1, None)])
def test_batches_are_more_numbers(dims):
    mean, var = torch.randn(4, 5), torch.rand(5) if dims[1] is None else torch.rand(4, 5)
    mean = mean.T if dims[0] == 1 else mean
    found = torch.vmap(rectified, in_dims=dims)(mean, var)
    expected = rectified(mean.movedim(dims[0], 0), var.expand(4, 5))
    for one, other in zip(found, expected, strict=True):
        torch.testing.assert_close(one, other, rtol=0, atol=0)
