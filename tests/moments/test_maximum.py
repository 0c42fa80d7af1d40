"""The largest of several, against order statistics and its own symmetries."""

import pytest
import torch

from varigraph.errors import MissingRuleError
from varigraph.moments import Gaussian
from varigraph.moments.maximum import group_max


def largest(mean, var, prob=None):
    x = Gaussian(torch.tensor(mean).double()[:, None], torch.tensor(var).double()[:, None])
    group = torch.zeros(len(mean), dtype=torch.long)
    got = group_max(x, group, groups=1, prob=None if prob is None else torch.tensor(prob).double())
    return got.mean.item(), got.var.item()


def test_two_standard_normals():
    # E[max] = 1/sqrt(pi), V[max] = 1 - 1/pi
    assert largest([0.0, 0.0], [1.0, 1.0]) == pytest.approx((0.5641895835, 0.6816901138), abs=1e-9)


def test_a_certain_zero_makes_it_a_relu():
    assert largest([0.0, 1.0], [0.0, 4.0]) == pytest.approx((1.395593, 2.213763), abs=1e-6)


def test_widths_of_all_sizes():
    narrow = largest([0.0, 0.0], [1e-4, 1.0])
    assert narrow == pytest.approx((0.39896, 0.34089), abs=2e-4)


def test_the_order_of_messages_does_not_matter():
    mean, var = [0.1, -0.4, 0.9, 0.3], [1.0, 0.2, 0.5, 2.0]
    assert largest(mean, var) == pytest.approx(largest(mean[::-1], var[::-1]), rel=1e-12)


def test_one_coin_on_one_message():
    # 0 with 0.3, N(2, 1) with 0.7: mean 1.4, variance 0.7 (1 + 4) - 1.96
    assert largest([2.0], [1.0], [0.7]) == pytest.approx((1.4, 1.54), abs=2e-3)


def test_an_empty_group_is_zero_as_in_torch_geometric():
    x = Gaussian(torch.ones(2, 3), torch.ones(2, 3))
    got = group_max(x, torch.tensor([0, 0]), groups=2)
    assert got.mean[1].tolist() == got.var[1].tolist() == [0.0, 0.0, 0.0]


def test_max_over_everything_is_refused():
    with pytest.raises(MissingRuleError, match="along one dim"):
        torch.max(Gaussian(torch.ones(2), torch.ones(2)))
