"""The law of total variance, whole and in pieces."""

import pytest
import torch

from varigraph.moments import Gaussian
from varigraph.prediction.diagonal import Mixture


def test_pieces_add_up_to_the_whole():
    generator = torch.Generator().manual_seed(0)
    mean = torch.randn(9, 4, generator=generator).double()
    var = torch.rand(9, 4, generator=generator).double()
    whole = Mixture.of(Gaussian(mean, var))
    parts = [Mixture.of(Gaussian(m, v)) for m, v in zip(mean.split(2), var.split(2), strict=True)]
    added = parts[0].owned()
    for part in parts[1:]:
        added += part
    assert torch.allclose(added.mean, mean.mean(0))
    assert torch.allclose(added.between, mean.var(0, correction=0))
    assert torch.allclose(added.within, var.mean(0))
    assert torch.allclose(added.total.var, mean.var(0, correction=0) + var.mean(0))
    assert torch.allclose(added.total.var, whole.total.var)


def test_large_means_keep_the_digits_of_small_variances():
    mean = 1000 + 0.01 * torch.randn(64, 1, generator=torch.Generator().manual_seed(0))
    a, b = mean.split(32)
    got = Mixture.of(Gaussian.certain(a))
    got += Mixture.of(Gaussian.certain(b))
    want = mean.double().var(0, correction=0)
    assert torch.allclose(got.between.double(), want, rtol=1e-2)


def test_taking_in_more_leaves_what_was_given_alone():
    first, second = (
        Gaussian(torch.ones(1, 3), torch.ones(1, 3)),
        Gaussian.certain(torch.zeros(1, 3)),
    )
    both = Mixture.of(first).owned()
    both += Mixture.of(second)
    assert both.mean.tolist() == [0.5, 0.5, 0.5]
    assert both.between.tolist() == [0.25, 0.25, 0.25]
    assert first.mean.tolist() == [[1.0, 1.0, 1.0]]
    assert second.mean.tolist() == [[0.0, 0.0, 0.0]]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("count", [3, 37, 100])
def test_components_that_agree_have_no_variance_between_them(count, dtype):
    mean = torch.tensor([[0.1, 1e6 / 3, -7.7]], dtype=dtype)
    same = Gaussian(mean.expand(count, 1, 3), torch.ones(count, 1, 3, dtype=dtype))
    found = Mixture.of(same)
    assert float(found.between.max()) == 0
    assert torch.equal(found.mean, mean)
