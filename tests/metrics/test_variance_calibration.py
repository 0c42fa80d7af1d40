import math

import numpy as np
import pytest
import torch

from metrics.drawn import normal
from varigraph.metrics import variance_calibration


@pytest.mark.parametrize("bins", [1, 4, 10])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_it_agrees_with_slices_of_the_sorted_variances(bins, dtype):
    mean, var, truth = (values.to(dtype) for values in normal(400, scale=1.5))
    order = var.double().numpy().argsort()
    parts = np.split(order, bins)
    square = (truth.double() - mean.double()).square().numpy()
    spread = [math.sqrt(var.double().numpy()[part].mean()) for part in parts]
    error = [math.sqrt(square[part].mean()) for part in parts]
    found = variance_calibration(mean, var, truth, bins=bins)
    assert found.predicted.tolist() == pytest.approx(spread)
    assert found.observed.tolist() == pytest.approx(error)
    assert found.count.tolist() == [400 // bins] * bins
    expected = np.mean([abs(s - e) / s for s, e in zip(spread, error, strict=True)])
    assert found.ence == pytest.approx(expected)


@pytest.mark.parametrize("scale", [1.0, 0.5, 3.0])
def test_the_error_tells_how_wrong_the_scale_is(scale):
    found = variance_calibration(*normal(50_000, scale=scale))
    assert found.ence == pytest.approx(abs(scale - 1), abs=0.02)


def test_equal_variances_stay_together():
    var = torch.tensor([1.0, 1.0, 1.0, 4.0])
    found = variance_calibration(torch.zeros(4), var, torch.tensor([1.0, 1.0, -1.0, 2.0]), bins=4)
    assert found.predicted.tolist() == [1, 2]
    assert found.count.tolist() == [3, 1]
    assert found.ence == 0


@pytest.mark.parametrize(("error", "ence"), [(0.0, 0.0), (0.1, math.inf)])
def test_zero_variance_is_right_or_infinitely_wrong(error, ence):
    zero = torch.zeros(2)
    assert variance_calibration(zero, zero, zero + error).ence == ence


def test_the_shape_does_not_matter():
    mean, var, truth = normal(60)
    folded = variance_calibration(*(values.view(6, 10) for values in (mean, var, truth)))
    assert folded.ence == pytest.approx(variance_calibration(mean, var, truth).ence)
