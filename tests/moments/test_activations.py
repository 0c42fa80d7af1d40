"""Reference values, computed by hand or by quadrature elsewhere."""

import pytest
import torch
from torch.nn import functional as F

from varigraph.moments import Gaussian

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


@pytest.mark.parametrize(
    "function", [F.relu, F.elu, F.gelu, F.silu, torch.tanh, torch.sigmoid, F.softplus]
)
@pytest.mark.parametrize("mean", [-1e4, 0.0, 1e4])
@pytest.mark.parametrize("var", [0.0, 1e-30, 1e8])
def test_nothing_breaks_at_extremes(function, mean, var):
    got = function(Gaussian(torch.tensor([mean]), torch.tensor([var])))
    assert bool(got.mean.isfinite().all() & got.var.isfinite().all())
    assert got.var.item() >= 0
    if var == 0:
        assert got.mean.item() == pytest.approx(function(torch.tensor(mean)).item(), abs=1e-6)
