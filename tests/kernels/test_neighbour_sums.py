import pytest
import torch

pytest.importorskip("triton")

from varigraph.kernels.neighbour_sums import Rows, neighbour_moments, neighbour_sums


def dense_and_rows(nodes, senders, links, draw):
    """A random matrix, dense, and the same in compressed rows."""
    dense = torch.zeros(nodes, senders)
    places = torch.randperm(nodes * senders, generator=draw)[:links]
    dense.view(-1)[places] = torch.randn(links, generator=draw)
    dense[0] = torch.randn(senders, generator=draw)  # a row that is longer than what fits at once
    dense[1] = 0  # and one without entries
    entries = dense.nonzero()
    start = torch.cat([torch.zeros(1), (dense != 0).sum(1).cumsum(0)]).int()
    return dense, start, entries[:, 1].int(), dense[dense != 0]


@pytest.mark.parametrize("width", [1, 3, 4, 47, 100, 300])
def test_sums_are_the_dense_product(width):
    draw = torch.Generator().manual_seed(width)
    dense, start, columns, values = dense_and_rows(9, 21, 50, draw)
    x = torch.randn(21, width, generator=draw)
    order = torch.randperm(9, generator=draw)
    found = neighbour_sums(Rows(start, columns, values, order, even=False), x)
    torch.testing.assert_close(found, (dense.double() @ x.double()).float(), rtol=1e-5, atol=1e-5)


def test_sums_take_views():
    draw = torch.Generator().manual_seed(0)
    dense, start, columns, values = dense_and_rows(6, 8, 20, draw)
    x = torch.randn(5, 8, generator=draw).T
    found = neighbour_sums(Rows(start, columns, values, torch.arange(6), even=False), x)
    torch.testing.assert_close(found, dense @ x)


@pytest.mark.parametrize("width", [2, 5, 150])
def test_means_and_variances_go_side_by_side(width):
    draw = torch.Generator().manual_seed(width)
    dense, start, columns, values = dense_and_rows(7, 11, 40, draw)
    mean, var = torch.randn(2, 11, width, generator=draw)
    matrix = Rows(start, columns, values, torch.arange(7), even=False)
    found = neighbour_moments(matrix, mean, var)
    torch.testing.assert_close(found[0], dense @ mean)
    torch.testing.assert_close(found[1], dense.square() @ var)


def test_rows_of_one_value_each_are_scaled_after_the_sum():
    draw = torch.Generator().manual_seed(3)
    dense, start, columns, _ = dense_and_rows(7, 11, 40, draw)
    of_row = torch.randn(7, generator=draw)
    even = of_row[:, None] * (dense != 0)
    mean, var = torch.randn(2, 11, 6, generator=draw)
    found = neighbour_moments(Rows(start, columns, of_row, torch.arange(7), even=True), mean, var)
    torch.testing.assert_close(found[0], even @ mean)
    torch.testing.assert_close(found[1], even.square() @ var)
