"""A law that nothing can break is no law: each of the five is broken on purpose."""

import math
from unittest.mock import patch

import pytest
import torch
from torch import nn

import varigraph as vg
from varigraph.moments.registry import LAYERS
from varigraph.testing import check_rule, jacobian, largest_error, quadrature

X = vg.Gaussian(
    torch.tensor([-20.0, -2.0, -0.5, 0.5, 2.0]).double(),
    torch.tensor([1.0, 0.3, 1.0, 2.0, 0.1]).double(),
)


class Rectify(nn.Module):
    def forward(self, x):
        return torch.relu(x)


class Double(nn.Module):
    def forward(self, x):
        return 2 * x


@pytest.fixture(autouse=True)
def rules():
    """Rules registered by a test are gone after it."""
    with patch.dict(LAYERS):
        yield


def doubled(variance):
    """A rule for Double that is right about the mean."""
    vg.implements(Double, exactness="exact")(
        lambda layer, x: vg.Gaussian(2 * x.mean, variance(x.var))
    )
    return Double()


def rectified(moments):
    """A rule for Rectify."""
    vg.implements(Rectify, exactness="exact")(lambda layer, x: moments(x))
    return Rectify()


def textbook_relu(x, std):
    r"""(m² + v) Φ + m s φ − mean², as it is printed."""
    a = x.mean / std
    upper, density = torch.special.ndtr(a), torch.exp(-(a**2) / 2) / math.sqrt(2 * math.pi)
    mean = x.mean * upper + std * density
    second = (x.mean**2 + x.var) * upper + x.mean * std * density
    return vg.Gaussian(mean, (second - mean**2).clamp_min(0))


def test_right_rules_pass():
    assert check_rule(doubled(lambda v: 4 * v), x=X, oracle=jacobian, linear=True) < 1e-12
    assert check_rule(rectified(torch.relu), x=X, oracle=quadrature) < 1e-6


def test_the_first_law_finds_a_wrong_variance():
    with pytest.raises(AssertionError, match=r"law 1: off the oracle by 5\.00e-01"):
        check_rule(doubled(lambda v: 2 * v), x=X, oracle=jacobian)


def test_the_first_law_finds_a_wrong_mean():
    shifted = rectified(lambda x: vg.Gaussian(torch.relu(x).mean + 0.01, torch.relu(x).var))
    with pytest.raises(AssertionError, match="law 1"):
        check_rule(shifted, x=X, oracle=quadrature)


def test_the_second_law_finds_a_rule_that_is_not_the_layer_without_noise():
    divides = rectified(lambda x: textbook_relu(x, x.var.sqrt()))  # 0 / 0 at a certain 0
    assert largest_error(divides, x=X, oracle=quadrature) < 1e-6
    certain = vg.Gaussian(torch.cat([X.mean, torch.zeros(1)]), torch.cat([X.var, torch.ones(1)]))
    with pytest.raises(AssertionError, match="law 2: mean without noise"):
        check_rule(divides, x=certain, oracle=quadrature)


def test_the_second_law_finds_noise_made_from_nothing():
    noisy = doubled(lambda v: 4 * v + 1e-7)
    with pytest.raises(AssertionError, match="law 2: variance without noise"):
        check_rule(noisy, x=X, oracle=jacobian)


def test_the_third_law_finds_a_difference_of_large_numbers():
    tiny = torch.finfo(torch.float32).tiny
    textbook = rectified(lambda x: textbook_relu(x, x.var.clamp_min(tiny).sqrt()))
    assert largest_error(textbook, x=X, oracle=quadrature) < 1e-6
    with pytest.raises(AssertionError, match="law 3: the variance loses its digits"):
        check_rule(textbook, x=X, oracle=quadrature)


def test_the_fourth_law_finds_a_negative_variance():
    def below(x):
        right = torch.relu(x)
        return vg.Gaussian(right.mean, right.var - 1e-15 * x.var)

    with pytest.raises(AssertionError, match="law 4: a variance is negative"):
        check_rule(rectified(below), x=X, oracle=quadrature)


def test_the_fourth_law_finds_a_variance_that_does_not_scale():
    bent = doubled(lambda v: 4 * v + 1e-8 * v**2)
    check_rule(bent, x=X, oracle=jacobian)  # too little for an oracle to see
    with pytest.raises(AssertionError, match="law 4: the variance does not scale"):
        check_rule(bent, x=X, oracle=jacobian, linear=True)


def test_the_fifth_law_finds_a_wrong_response():
    from varigraph.rules import Scale, recorded

    def answering(slope):
        def rule(layer, x):
            out = vg.Gaussian(2 * x.mean, 4 * x.var)
            return recorded(out, (x, Scale(torch.tensor(slope).to(x.mean))))

        LAYERS.pop(Double, None)
        vg.implements(Double, exactness="exact")(rule)
        return Double()

    x = vg.Gaussian(X.mean[:, None], X.var[:, None])
    check_rule(answering(2.0), x=x, oracle=jacobian, linear=True)
    with pytest.raises(AssertionError, match="law 5"):
        check_rule(answering(3.0), x=x, oracle=jacobian, linear=True)
