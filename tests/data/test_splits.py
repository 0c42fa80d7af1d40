import pytest
import torch

from varigraph.data.graphs import random_split
from varigraph.errors import OptionError


@pytest.mark.parametrize(
    ("nodes", "sizes"),
    [(1, [0, 0, 1]), (10, [7, 1, 2]), (19, [13, 1, 5]), (2708, [1895, 270, 543])],
)
def test_the_parts_have_their_shares_and_cover_every_node_once(nodes, sizes):
    split = random_split(nodes, seed=3)
    masks = torch.stack([split.train, split.val, split.test])
    assert masks.dtype == torch.bool
    assert masks.sum(dim=1).tolist() == sizes
    assert (masks.sum(dim=0) == 1).all()


def test_the_seed_decides():
    first, again, other = (
        random_split(50, seed=1),
        random_split(50, seed=1),
        random_split(50, seed=2),
    )
    assert torch.equal(first.train, again.train)
    assert torch.equal(first.test, again.test)
    assert not torch.equal(first.train, other.train)


def test_a_seed_means_the_same_split_in_every_release():
    assert random_split(10, seed=0).test.nonzero().flatten().tolist() == [5, 7]


def test_the_split_is_random_and_not_a_stretch_of_nodes():
    train = random_split(1000, seed=0).train
    assert 300 < train[:500].sum() < 400


def test_the_global_random_state_stays():
    before = torch.random.get_rng_state()
    random_split(50, seed=1)
    assert torch.equal(torch.random.get_rng_state(), before)


def test_no_nodes_are_refused():
    with pytest.raises(OptionError, match=r"cannot split 0 nodes(.|\n)*remedy: give a graph"):
        random_split(0)
