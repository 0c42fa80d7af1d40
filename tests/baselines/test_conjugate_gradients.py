import pytest
import torch
from torch.testing import assert_close

from varigraph.baselines.log_degree import conjugate_gradients


def system(size):
    generator = torch.Generator().manual_seed(size)
    root = torch.randn(size, size, generator=generator).double()
    return root @ root.T + torch.eye(size), torch.randn(size, generator=generator).double()


@pytest.mark.parametrize("size", [1, 5, 40])
def test_it_solves_like_elimination(size):
    matrix, right = system(size)
    x = conjugate_gradients(matrix.matmul, right, matrix.diag(), tolerance=1e-12)
    assert_close(x, torch.linalg.solve(matrix, right), atol=1e-8, rtol=1e-8)


def test_it_stops_when_asked_and_still_goes_downhill():
    matrix, right = system(40)
    products = []

    def product(x):
        products.append(x)
        return matrix @ x

    x = conjugate_gradients(product, right, matrix.diag(), max_steps=3)
    assert len(products) == 3
    assert x @ matrix @ x / 2 - right @ x < 0


def test_nothing_on_the_right_gives_nothing():
    assert not conjugate_gradients(torch.clone, torch.zeros(3), torch.ones(3)).any()
