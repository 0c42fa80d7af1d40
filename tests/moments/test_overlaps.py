"""Overlaps of chains of sums: against products of arrays."""

import os
import sys

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from varigraph.errors import TooLargeError
from varigraph.moments import input_noise as module
from varigraph.moments.input_noise import overlaps
from varigraph.sparse import Sparse

NODES = 9


def random_sparse(share, draw, *, nodes=NODES, dtype=torch.float64):
    """A matrix with a share of its entries, and the same as an array."""
    kept = torch.rand(nodes, nodes, generator=draw) < share
    dense = torch.randn(nodes, nodes, generator=draw).to(dtype) * kept
    return Sparse(*kept.nonzero().T, dense[kept], (nodes, nodes)), dense


@settings(max_examples=40, deadline=None)
@given(
    st.integers(0, 2**32 - 1),
    st.sampled_from([0.0, 0.2, 0.6]),
    st.sampled_from([torch.float32, torch.float64]),
    st.sampled_from([1, 2000, 2**26]),
    st.sampled_from([1, 3]),
)
def test_overlaps_are_products_of_arrays(seed, share, dtype, at_once, columns):
    draw = torch.Generator().manual_seed(seed)
    (one, a), (two, b) = (random_sparse(share, draw, dtype=dtype) for _ in range(2))
    node = torch.rand(NODES, columns, generator=draw).to(dtype)
    chains = {"": [], "a": [one], "b": [two], "ab": [one, two], "aba": [one, two, one]}
    arrays = {"": torch.eye(NODES, dtype=dtype), "a": a, "b": b, "ab": a @ b, "aba": a @ b @ a}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "AT_ONCE", {"cpu": at_once})
        found = overlaps(chains, node, 2**30)
    assert len(found) == 15
    for (x, y), got in found.items():
        want = (arrays[x] * arrays[y]) @ node
        assert got.dtype == dtype
        assert torch.allclose(got, want, rtol=1e-4, atol=1e-5), (x, y)


def test_too_many_walks_are_refused():
    matrix, _ = random_sparse(1.0, torch.Generator().manual_seed(0))
    with pytest.raises(TooLargeError, match="is reached by 91 walks, which need"):
        overlaps({"twice": [matrix, matrix]}, torch.ones(NODES, 1).double(), 1000)


@pytest.mark.skipif(sys.platform != "linux", reason="reads the size of a process from /proc")
def test_what_products_took_is_free_again():
    draw = torch.Generator().manual_seed(0)
    matrix, _ = random_sparse(0.02, draw, nodes=1000, dtype=torch.float32)

    def resident():
        overlaps({"twice": [matrix, matrix]}, torch.ones(1000, 1), 2**30)
        with open("/proc/self/statm") as pages:
            return int(pages.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")

    resident()
    before = resident()  # a product of 330,000 entries takes 2.6 MB
    after = [resident() for _ in range(40)][-1]
    assert after - before < 40e6
