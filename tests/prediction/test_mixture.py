"""The law of total variance, whole and in pieces."""

import torch

from varigraph.moments import Gaussian
from varigraph.prediction.mixture import Mixture


def test_pieces_add_up_to_the_whole():
    generator = torch.Generator().manual_seed(0)
    mean = torch.randn(9, 4, generator=generator).double()
    var = torch.rand(9, 4, generator=generator).double()
    whole = Mixture.of(Gaussian(mean, var))
    parts = [Mixture.of(Gaussian(m, v)) for m, v in zip(mean.split(2), var.split(2), strict=True)]
    added = sum(parts[1:], start=parts[0])
    assert torch.allclose(added.mean, mean.mean(0))
    assert torch.allclose(added.between, mean.var(0, correction=0))
    assert torch.allclose(added.within, var.mean(0))
    assert torch.allclose(added.total.var, whole.total.var)


def test_large_means_keep_the_digits_of_small_variances():
    mean = 1000 + 0.01 * torch.randn(64, 1, generator=torch.Generator().manual_seed(0))
    a, b = mean.split(32)
    got = Mixture.of(Gaussian.certain(a)) + Mixture.of(Gaussian.certain(b))
    want = mean.double().var(0, correction=0)
    assert torch.allclose(got.between.double(), want, rtol=1e-2)
