import math

import pytest
import torch
import torch.nn.functional as F
from scipy.stats import norm

from metrics.drawn import classified, normal
from varigraph.errors import OptionError
from varigraph.metrics import gaussian_nll, per_class_nll


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_values_agree_with_scipy(dtype):
    mean, var, truth = (values.to(dtype) for values in normal())
    expected = -norm.logpdf(truth.double(), mean.double(), var.double().sqrt()).mean()
    assert gaussian_nll(mean, var, truth) == pytest.approx(expected, abs=1e-12)


def test_the_shape_does_not_matter():
    mean, var, truth = normal()
    folded = gaussian_nll(mean.view(40, -1), var.view(40, -1), truth.view(40, -1))
    assert folded == pytest.approx(gaussian_nll(mean, var, truth), abs=1e-12)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_classes_agree_with_torch(dtype):
    mean, labels = classified(dtype=dtype)
    total = mean * (1 - mean) / 3
    total[0] = 0
    expected = F.gaussian_nll_loss(mean, F.one_hot(labels, 5).to(mean), total)
    assert per_class_nll(mean, total, labels) == pytest.approx(float(expected), rel=1e-5)


@pytest.mark.parametrize("label", [0, 1])
def test_zero_variance_gives_a_finite_value(label):
    mean = torch.tensor([[1.0, 0.0]])
    found = per_class_nll(mean, torch.zeros_like(mean), torch.tensor([label]))
    assert found == pytest.approx(math.log(1e-6) / 2 + label * 0.5e6)


def test_the_floor_can_be_moved():
    mean, total = torch.tensor([[1.0, 0.0]]), torch.full((1, 2), 1e-9)
    labels = torch.tensor([0])
    assert per_class_nll(mean, total, labels) == pytest.approx(math.log(1e-6) / 2)
    assert per_class_nll(mean, total, labels, floor=1e-30) == pytest.approx(math.log(1e-9) / 2)


@pytest.mark.parametrize("floor", [0, -1, math.nan])
def test_a_floor_that_is_no_variance_is_refused(floor):
    one = torch.ones(1)
    with pytest.raises(OptionError, match="floor="):
        gaussian_nll(one, one, one, floor=floor)
