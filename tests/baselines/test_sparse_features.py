import pytest
import torch
from torch.testing import assert_close

from varigraph.baselines.gcn import dropped, lean
from varigraph.sparse import Sparse


def features(share, *, nodes=60, width=50, seed=0):
    generator = torch.Generator().manual_seed(seed)
    kept = torch.rand(nodes, width, generator=generator) < share
    return torch.rand(nodes, width, generator=generator) * kept


@pytest.mark.parametrize("share", [0.0, 0.02, 0.15])
def test_product_and_gradient_are_those_of_the_dense_matrix(share):
    x = features(share)
    weight = torch.randn(50, 4, generator=torch.Generator().manual_seed(1), requires_grad=True)
    thin = lean(x)
    assert isinstance(thin, Sparse)
    assert_close(thin @ weight, x @ weight)
    (grad,) = torch.autograd.grad((thin @ weight).square().sum(), weight)
    assert_close(grad, torch.autograd.grad((x @ weight).square().sum(), weight)[0])


def test_full_features_stay_as_they_are():
    x = features(0.5)
    assert lean(x) is x


@pytest.mark.parametrize("share", [0.1, 1.0])
@pytest.mark.parametrize("rate", [0.0, 0.5, 0.9])
def test_dropout_keeps_the_share_and_the_mean(share, rate):
    x = features(share, nodes=500, width=100)
    thin = dropped(lean(x), rate, torch.Generator().manual_seed(2))
    found = thin @ torch.eye(100)
    present, kept = x != 0, found != 0
    assert not kept[~present].any()
    count = int(present.sum())
    off = kept[present].sum().item() / count - (1 - rate)
    assert abs(off) <= 5 * (rate * (1 - rate) / count) ** 0.5
    assert_close(found[kept], x[kept] / (1 - rate))


def test_dropped_features_pass_gradients_on():
    x = features(1.0).requires_grad_()
    found = dropped(x, 0.5, torch.Generator().manual_seed(0))
    (grad,) = torch.autograd.grad(found.sum(), x)
    assert_close(grad, 2.0 * (found != 0))
    assert torch.equal(x.detach(), features(1.0))
