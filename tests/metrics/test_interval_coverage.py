import math

import pytest
import torch
from scipy.stats import norm

from metrics.drawn import normal
from varigraph.errors import OptionError
from varigraph.metrics import interval_coverage


@pytest.mark.parametrize("level", [0.01, 0.5, 0.9, 0.999])
@pytest.mark.parametrize("scale", [0.5, 1.0, 3.0])
def test_it_counts_what_is_within_the_interval_of_scipy(level, scale):
    mean, var, truth = normal(500, scale=scale)
    inside = 0
    for m, v, t in zip(mean.tolist(), var.tolist(), truth.tolist(), strict=True):
        low, high = norm.interval(level, m, math.sqrt(v))
        inside += low <= t <= high
    assert interval_coverage(mean, var, truth, level=level) == pytest.approx(inside / 500)


def test_honest_variances_hold_their_share_and_small_ones_less():
    mean, var, truth = normal(20_000)
    assert interval_coverage(mean, var, truth) == pytest.approx(0.9, abs=0.01)
    assert interval_coverage(mean, var / 4, truth) == pytest.approx(0.589, abs=0.015)


def test_zero_variance_holds_the_mean_alone():
    mean = torch.tensor([1.0, 1.0])
    assert interval_coverage(mean, torch.zeros(2), torch.tensor([1.0, 1.1])) == 0.5


def test_a_level_next_to_one_is_still_finite():
    one = torch.ones(1)
    level = math.nextafter(1, 0)
    assert interval_coverage(one, one, one + 8, level=level) == 1
    assert interval_coverage(one, one, one + 9, level=level) == 0


@pytest.mark.parametrize("level", [0, 1, 90, -0.1, math.nan])
def test_a_level_is_a_share(level):
    one = torch.ones(1)
    with pytest.raises(OptionError, match="level="):
        interval_coverage(one, one, one, level=level)
