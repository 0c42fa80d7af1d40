"""Cotangents on pairs of nodes are arrays with zeros left out: every operation against einsum."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from varigraph.errors import TooLargeError
from varigraph.moments.cotangents import Cotangents, blocks_within, row_blocks
from varigraph.sparse import Sparse

ROWS, OUTPUTS, FEATURES = 3, 2, 3

seeds = st.integers(0, 2**32 - 1)
sizes = st.integers(1, 7)
shares = st.sampled_from([0.0, 0.2, 0.6, 1.0])


def generator(seed):
    return torch.Generator().manual_seed(seed)


def random_sparse(rows, columns, share, draw):
    """A matrix with a share of its entries, and the same as an array."""
    kept = torch.rand(rows, columns, generator=draw) < share
    dense = torch.randn(rows, columns, generator=draw).double() * kept
    places = kept.nonzero()
    return Sparse(*places.T, dense[kept], (rows, columns)), dense


def random_pairs(nodes, share, draw, *, outputs=OUTPUTS, features=FEATURES):
    """Cotangents on a share of the pairs, and the same as an array ``[rows, nodes, ..]``."""
    kept = torch.rand(ROWS, nodes, generator=draw) < share
    values = torch.randn(ROWS, nodes, outputs, features, generator=draw).double()
    row, column = kept.nonzero().T
    dense = values * kept[..., None, None]
    return Cotangents(row, column, values[kept], nodes, ROWS), dense


def written_out(pairs):
    dense = torch.zeros(pairs.rows, pairs.nodes, *pairs.values.shape[1:]).double()
    dense[pairs.row, pairs.column] = pairs.values.double()
    return dense


def assert_in_order(pairs):
    assert bool((pairs.keys[1:] > pairs.keys[:-1]).all())
    assert torch.equal(pairs.keys, pairs.row * pairs.nodes + pairs.column)
    assert bool((pairs.row < pairs.rows).all() & (pairs.column < pairs.nodes).all())


@settings(max_examples=60, deadline=None)
@given(seeds, sizes, sizes, shares, shares)
def test_through_is_a_product_from_the_right(seed, middle, nodes, share, filled):
    draw = generator(seed)
    matrix, dense = random_sparse(middle, nodes, filled, draw)
    pairs, array = random_pairs(middle, share, draw)
    got = pairs.through(matrix)
    assert_in_order(got)
    assert (got.nodes, got.rows) == (nodes, ROWS)
    assert torch.allclose(written_out(got), torch.einsum("uvoh,vw->uwoh", array, dense))
    reached = (array.flatten(2).any(2).double() @ (dense != 0).double()) > 0
    assert torch.equal(torch.stack([got.row, got.column], 1), reached.nonzero())


@settings(max_examples=60, deadline=None)
@given(seeds, sizes, sizes, shares, shares)
def test_gathered_is_a_product_from_the_left(seed, middle, nodes, share, filled):
    draw = generator(seed)
    matrix, dense = random_sparse(middle, nodes, filled, draw)
    pairs, _ = random_pairs(middle, share, draw)
    source, array = random_pairs(nodes, 1.0, draw, outputs=4, features=2)
    got = pairs.gathered(matrix, source)
    listed = torch.zeros(ROWS, middle, 1, 1).double()
    listed[pairs.row, pairs.column] = 1
    want = torch.einsum("vw,uwoh->uvoh", dense, array) * listed
    assert torch.equal(got.keys, pairs.keys)
    assert torch.allclose(written_out(got), want)


@settings(max_examples=60, deadline=None)
@given(seeds, sizes, sizes, shares, shares)
def test_gathered_is_the_transpose_of_through(seed, middle, nodes, share, filled):
    """<through(x), y> = <x, gathered(y)> for any y on the pairs that are reached."""
    draw = generator(seed)
    matrix, _ = random_sparse(middle, nodes, filled, draw)
    x, _ = random_pairs(middle, share, draw)
    there = x.through(matrix)
    y = there.with_values(torch.randn(there.values.shape, generator=draw).double())
    here = x.gathered(matrix, y)
    left, right = (there.values * y.values).sum(), (x.values * here.values).sum()
    assert float(left) == pytest.approx(float(right), rel=1e-10, abs=1e-10)


@settings(max_examples=60, deadline=None)
@given(seeds, sizes, shares, shares)
def test_sums_add_where_pairs_meet(seed, nodes, share, other_share):
    draw = generator(seed)
    (a, x), (b, y) = (random_pairs(nodes, s, draw) for s in (share, other_share))
    got = a + b
    assert_in_order(got)
    assert torch.allclose(written_out(got), x + y)
    either = x.flatten(2).any(2) | y.flatten(2).any(2)
    assert torch.equal(torch.stack([got.row, got.column], 1), either.nonzero())
    for part, array in zip(a.aligned(b), (x, y), strict=True):
        assert torch.equal(part.keys, got.keys)
        assert torch.equal(written_out(part), array)
    assert torch.equal(written_out(a), x)  # neither of the two has changed
    assert torch.equal(written_out(b), y)


@settings(max_examples=60, deadline=None)
@given(seeds, sizes, shares)
def test_values_are_found_at_other_pairs(seed, nodes, share):
    draw = generator(seed)
    some, _ = random_pairs(nodes, share, draw, features=5)
    every, array = random_pairs(nodes, 1.0, draw)
    got = every.at(some)
    assert torch.equal(got.keys, some.keys)
    assert torch.equal(got.values, array[some.row, some.column])
    assert torch.equal(every.at(every).values, every.values)
    other = every.with_values(2 * every.values)
    assert torch.equal(other.at(every.pattern).values, 2 * every.values)


@settings(max_examples=60, deadline=None)
@given(seeds, sizes, shares)
def test_gram_and_sums_over_rows(seed, nodes, share):
    draw = generator(seed)
    pairs, array = random_pairs(nodes, share, draw)
    plain = torch.einsum("uvah,uvbh->uab", array, array)
    assert torch.allclose(pairs.gram(), plain)
    for width in (1, array.shape[-1]):
        weight = torch.rand(nodes, width, generator=draw).double()
        full = weight.expand(nodes, array.shape[-1])
        weighted = torch.einsum("uvah,uvbh,vh->uab", array, array, full)
        assert torch.allclose(pairs.gram(weight), weighted)
    assert torch.allclose(pairs.sum_rows(pairs.values), array.sum(1))


@settings(max_examples=30, deadline=None)
@given(seeds, sizes, sizes, shares)
def test_the_pattern_is_that_of_the_pairs_alone(seed, middle, nodes, share):
    draw = generator(seed)
    matrix, _ = random_sparse(middle, nodes, 0.5, draw)
    pairs, _ = random_pairs(middle, share, draw)
    pattern = pairs.pattern
    assert pattern.values.numel() == 0
    assert torch.equal(pattern.keys, pairs.keys)
    assert torch.equal(pattern.through(matrix).keys, pairs.through(matrix).keys)


@pytest.mark.parametrize("size", [1, 3])
def test_the_identity(size):
    rows, like = torch.tensor([4, 1, 4]), torch.zeros((), dtype=torch.float32)
    pairs = Cotangents.identity(rows, 6, like, size)
    assert pairs.values.dtype == torch.float32
    want = torch.zeros(3, 6, size, size).double()
    for block, node in enumerate(rows.tolist()):
        want[block, node] = torch.eye(size)
    assert torch.equal(written_out(pairs), want)
    matrix, dense = random_sparse(6, 5, 0.5, generator(0))
    rows_of_matrix = written_out(pairs.through(matrix))[:, :, 0, 0]
    assert torch.allclose(rows_of_matrix, dense[rows], atol=1e-6)


def test_keys_are_carried_over_once_known():
    pairs, _ = random_pairs(5, 0.6, generator(0))
    keys = pairs.keys
    assert pairs.with_values(pairs.values + 1).keys is keys


# ---- blocks of output nodes ----


def walks_of(chain, node):
    """Number of walks from a node along the chain, one by one, all lengths together."""
    if not chain:
        return 0
    first, *others = chain
    steps = first.columns[first.rows == node].tolist()
    return sum(1 + walks_of(others, next_node) for next_node in steps)


@settings(max_examples=40, deadline=None)
@given(seeds, st.integers(1, 3), st.integers(1, 40), st.floats(1, 5))
def test_blocks_hold_all_rows_and_as_many_as_fit(seed, length, numbers, room):
    draw = generator(seed)
    chain = [random_sparse(8, 8, 0.4, draw)[0] for _ in range(length)]
    rows = torch.randperm(8, generator=draw)
    walks = [1 + walks_of(chain, node) for node in rows.tolist()]
    costs = [48 * count + 12 * numbers * min(count, 8) for count in walks]
    memory = int(room * max(costs)) + 1
    blocks = list(row_blocks([chain], rows, numbers, memory))
    assert torch.equal(torch.cat(blocks), rows)
    assert all(len(block) > 0 for block in blocks)
    ends = torch.tensor([len(block) for block in blocks]).cumsum(0).tolist()
    for first, end in zip([0, *ends], ends, strict=False):
        assert sum(costs[first:end]) <= memory
        assert end == len(rows) or sum(costs[first : end + 1]) > memory
    with pytest.raises(TooLargeError) as caught:
        list(row_blocks([chain], rows, numbers, max(costs) - 1))
    worst = costs.index(max(costs))
    assert f"node {int(rows[worst])} is reached by {walks[worst]:,} walks" in caught.value.problem
    assert "memory=" in caught.value.remedy


def test_without_sums_all_rows_are_one_block():
    rows = torch.tensor([3, 1])
    assert [block.tolist() for block in row_blocks([[]], rows, 1, 1000)] == [[3, 1]]


def test_what_costs_more_than_the_bound_is_a_block_of_its_own():
    rows, cost = torch.tensor([7, 3, 5, 1, 0]), torch.tensor([2.0, 9.0, 1.0, 2.0, 1.0])
    blocks = [block.tolist() for block in blocks_within(rows, cost, 3)]
    assert blocks == [[7], [3], [5, 1], [0]]


def test_less_at_once_is_more_blocks_but_nothing_is_refused():
    chain = [random_sparse(8, 8, 0.4, generator(0))[0]]
    rows = torch.arange(8)
    together = list(row_blocks([chain], rows, 3, 10**6))
    apart = list(row_blocks([chain], rows, 3, 10**6, at_once=1))
    assert (len(together), len(apart)) == (1, 8)
    assert torch.equal(torch.cat(apart), rows)
