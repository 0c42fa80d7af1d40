"""The sparse product is the dense one: forward, backward and batched."""

import pytest
import torch

from varigraph.moments.sparse import Sparse


@pytest.fixture
def matrix():
    return Sparse(
        torch.tensor([0, 0, 2]),
        torch.tensor([1, 3, 0]),
        torch.tensor([2.0, -1.0, 0.5]).double(),
        (3, 4),
    )


def test_product_and_gradient(matrix):
    dense, x = matrix.csr.to_dense(), torch.randn(4, 5).double().requires_grad_()
    assert torch.allclose(matrix @ x, dense @ x)
    assert torch.autograd.gradcheck(lambda t: matrix @ t, x)


def test_samples_become_columns(matrix):
    x = torch.randn(7, 4, 5).double()
    assert torch.allclose(torch.vmap(lambda t: matrix @ t)(x), matrix.csr.to_dense() @ x)


def test_transpose(matrix):
    assert torch.equal(matrix.transpose.csr.to_dense(), matrix.csr.to_dense().T)
