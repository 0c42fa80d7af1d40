"""The sparse product is the dense one: forward, backward and batched."""

import weakref

import pytest
import torch

from varigraph import sparse
from varigraph.sparse import Sparse, prepare, product


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


def test_gradients_reach_the_entries(matrix):
    x = torch.randn(4, 5).double().requires_grad_()
    values = matrix.values.clone().requires_grad_()
    assert torch.autograd.gradcheck(lambda v, t: matrix.with_values(v) @ t, (values, x))


def test_many_matrices_of_one_pattern(matrix):
    values, x = torch.randn(6, 3).double(), torch.randn(4, 5).double()
    got = torch.vmap(lambda v: matrix.with_values(v) @ x)(values)
    want = torch.stack([matrix.with_values(v).csr.to_dense() @ x for v in values])
    assert torch.allclose(got, want)


def test_other_values_at_the_same_places(matrix):
    other = matrix.with_values(torch.tensor([5.0, 6.0, 7.0]).double())
    want = torch.zeros(3, 4).double()
    want[0, 1], want[0, 3], want[2, 0] = 5, 6, 7
    assert torch.equal(other.csr.to_dense(), want)
    assert torch.equal(other.transpose.csr.to_dense(), want.T)
    assert torch.equal(matrix.csr.to_dense()[0], torch.tensor([0.0, 2.0, 0.0, -1.0]).double())


def test_a_symmetric_matrix_is_its_own_transpose():
    both = torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]])
    values = torch.tensor([2.0, 2.0, 3.0, 3.0]).double()
    matrix = Sparse(both[0], both[1], values, (3, 3), symmetric=True)
    assert matrix.transpose is matrix
    x = torch.randn(3, 2).double().requires_grad_()
    assert torch.autograd.gradcheck(lambda t: matrix @ t, x)


def test_samples_become_columns(matrix):
    x = torch.randn(7, 4, 5).double()
    assert torch.allclose(torch.vmap(lambda t: matrix @ t)(x), matrix.csr.to_dense() @ x)


def test_transpose(matrix):
    assert torch.equal(matrix.transpose.csr.to_dense(), matrix.csr.to_dense().T)


def drawn(rows, columns, *, seed, share=0.3):
    generator = torch.Generator().manual_seed(seed)
    dense = torch.randn(rows, columns, generator=generator).double()
    dense[torch.rand(rows, columns, generator=generator) > share] = 0
    at = dense.nonzero().T
    return Sparse(*at, dense[tuple(at)], (rows, columns)), dense


def test_picked_rows(matrix):
    rows = torch.tensor([2, 0, 0])
    assert torch.equal(matrix.picked(rows).csr.to_dense(), matrix.csr.to_dense()[rows])


@pytest.mark.parametrize("share", [0.0, 0.05, 0.5])
def test_products_of_sparse_matrices(share):
    (one, dense_one), (two, dense_two) = drawn(30, 20, seed=0), drawn(20, 25, seed=1, share=share)
    assert torch.allclose(one.times(two).csr.to_dense(), dense_one @ dense_two)


@pytest.mark.parametrize("share", [0.0, 0.05, 0.5])
def test_row_products(share):
    (one, dense_one), (two, dense_two) = drawn(30, 20, seed=0), drawn(30, 20, seed=1, share=share)
    weight = torch.rand(20, 3).double()
    want = (dense_one * dense_two) @ weight
    assert torch.allclose(one.row_products(two, weight), want)
    assert torch.allclose(two.row_products(one, weight), want)
    own = dense_one.square() @ weight
    assert torch.allclose(one.row_products(one, weight), own)
    shuffled = one.times(Sparse(*torch.arange(20).expand(2, -1), torch.ones(20).double(), (20, 20)))
    assert torch.allclose(shuffled.row_products(two, weight), want)


@pytest.mark.parametrize("rows", [5, 0])
def test_heads_have_entries_of_their_own(rows):
    matrix, _ = drawn(rows, 4, seed=0, share=0.5)
    weight, x = torch.randn(len(matrix.values), 2).double(), torch.randn(4, 3, 6).double()
    want = torch.zeros(rows, 3, 6).double()
    for row, column, (first, second) in zip(matrix.rows, matrix.columns, weight, strict=True):
        want[row, :, :3] += first * x[column, :, :3]
        want[row, :, 3:] += second * x[column, :, 3:]
    torch.testing.assert_close(matrix.by_heads(weight, x), want)


@pytest.fixture
def by_kernels(monkeypatch):
    """Kernels are for any tensor, as the interpreter has them."""
    pytest.importorskip("triton")
    monkeypatch.setattr(sparse, "fused", lambda *tensors: True)


@pytest.mark.parametrize("ready", [False, True])
def test_products_with_compressed_rows(ready, by_kernels):
    generator = torch.Generator().manual_seed(0)
    dense = torch.randn(7, 5, generator=generator) * (torch.rand(7, 5, generator=generator) < 0.5)
    matrix, many = dense.to_sparse_csr(), torch.randn(3, 5, 6, generator=generator)
    if ready:
        prepare(matrix)
    assert (matrix in sparse._PREPARED) == ready
    torch.testing.assert_close(product(matrix, many[0]), dense @ many[0])
    side_by_side = torch.vmap(lambda x: product(matrix, x))(many)
    torch.testing.assert_close(side_by_side, dense @ many)


def test_what_is_made_ready_is_forgotten_with_its_matrix(by_kernels):
    matrix = torch.eye(3).to_sparse_csr()
    prepare(matrix)
    made = weakref.ref(sparse._PREPARED[matrix])
    product(matrix, torch.ones(3, 2))
    del matrix
    assert made() is None


def test_nothing_is_made_ready_where_there_are_no_kernels():
    matrix = torch.eye(3).to_sparse_csr()
    prepare(matrix)
    assert matrix not in sparse._PREPARED
