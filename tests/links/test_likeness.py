import pytest
import torch

from varigraph.links import subgraphs
from varigraph.links.subgraphs import Likeness


@pytest.fixture
def x():
    return torch.rand(9, 5, generator=torch.Generator().manual_seed(0))


def test_it_is_the_cosine_about_the_mean(x, monkeypatch):
    monkeypatch.setattr(subgraphs, "ROWS", 7)
    one, two = torch.cartesian_prod(torch.arange(9), torch.arange(9)).t()
    found = Likeness(x).between(one, two)
    centred = x.double() - x.double().mean(dim=0)
    for i, j, value in zip(one.tolist(), two.tolist(), found.tolist(), strict=True):
        length = centred[i].norm() * centred[j].norm()
        assert value == pytest.approx(float(centred[i] @ centred[j] / length), abs=1e-6)


def test_scale_and_origin_make_no_difference(x):
    one, two = torch.arange(8), torch.arange(1, 9)
    torch.testing.assert_close(
        Likeness(5 * x + 3).between(one, two), Likeness(x).between(one, two), rtol=0, atol=1e-5
    )


def test_equal_nodes_have_nothing_in_common_that_counts():
    found = Likeness(torch.full((7, 3), 0.1)).between(torch.tensor([0, 1]), torch.tensor([1, 2]))
    assert found.abs().max() < 1e-6
