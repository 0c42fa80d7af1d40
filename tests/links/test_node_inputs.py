import pytest
import torch

from varigraph.links.hadamard import INPUTS, WIDTH, NodeInputs, main_directions
from varigraph.links.methods import Messages


def generator(seed=0):
    return torch.Generator().manual_seed(seed)


def low_rank(nodes=400, features=300, rank=20):
    one, two = (torch.randn(n, rank, generator=generator(n)) for n in (nodes, features))
    return (one * torch.linspace(5, 1, rank)) @ two.mT + 3


def test_many_features_become_their_main_directions():
    x = low_rank()
    z = main_directions(x, generator())
    centred = (x - x.mean(dim=0)).double()
    left, sizes, _ = torch.linalg.svd(centred, full_matrices=False)
    assert z.shape == (400, 20)
    assert sizes[20] < 1e-3 * sizes[19]
    cosines = torch.linalg.svdvals(left[:, :20].mT @ torch.linalg.qr(z.double()).Q)
    assert cosines.min() > 1 - 1e-4


def test_of_full_rank_the_largest_directions_are_kept():
    x = torch.randn(500, 300, generator=generator(1)) * torch.linspace(1, 0.01, 300).square()
    z = main_directions(x, generator())
    centred = x - x.mean(dim=0)
    z = z.float()
    kept = torch.linalg.lstsq(z, centred).solution
    left = (centred - z @ kept).square().sum()
    best = torch.linalg.svdvals(centred)[WIDTH:].square().sum()
    assert z.shape == (500, WIDTH)
    torch.testing.assert_close(z.square().mean(dim=0), torch.ones(WIDTH))
    assert left < 1.2 * best


def test_few_features_are_kept_whatever_their_scale():
    x = torch.randn(50, 3, generator=generator()) * torch.tensor([1e-6, 1.0, 1e6]) + 5e-6
    z = main_directions(x, generator())
    x = x.double()
    torch.testing.assert_close(z, (x - x.mean(dim=0)) / x.std(dim=0, unbiased=False))


@pytest.mark.parametrize("scale", [1e-30, 1e30])
@pytest.mark.parametrize("features", [3, 300])
def test_the_scale_of_all_features_together_does_not_matter(features, scale):
    x = torch.randn(50, features, generator=generator())
    plain, scaled = main_directions(x, generator()), main_directions(scale * x, generator())
    torch.testing.assert_close(scaled.abs(), plain.abs(), atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("x", [torch.full((50, 3), 0.1), torch.full((50, 200), 0.1)])
def test_features_that_say_nothing_are_left_out(x):
    assert main_directions(x, generator()).shape == (50, 0)


@pytest.mark.parametrize("x", [None, torch.ones(40, 5), torch.rand(40, 7), torch.rand(40, 300)])
def test_marks_make_up_what_the_features_do_not_give(x):
    links = torch.tensor([[0, 1, 2], [1, 2, 0]])
    heard = Messages(links, nodes=40)
    inputs = NodeInputs(x, nodes=40, device=links.device, generator=generator())
    seen = inputs.seen_with(heard.all())
    assert seen.shape == (40, INPUTS)
    assert bool(seen.isfinite().all())
    assert len(seen[:, :-1].unique(dim=0)) == 40  # nodes can be told apart
    silent = inputs.seen_with(heard.without(torch.tensor([True, False, False])))
    assert torch.equal(seen[:, :-1], silent[:, :-1])
    assert silent[:3, -1].tolist() == pytest.approx(torch.tensor([1, 1, 2]).log1p().tolist())
