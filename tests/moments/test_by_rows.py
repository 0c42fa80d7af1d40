"""Values by rows are the values themselves, and no more of them is computed than is asked for."""

import pytest
import torch

from varigraph.moments import Gaussian
from varigraph.moments.arithmetic import add, mul
from varigraph.moments.gaussian import ByRows, by_node
from varigraph.moments.layers import linear
from varigraph.moments.neighbours import neighbours_of
from varigraph.moments.pieces import relu

NODES, STEP = 70, 32


@pytest.fixture
def value():
    torch.manual_seed(0)
    return Gaussian(torch.randn(NODES, 3).double(), torch.rand(NODES, 3).double())


@pytest.fixture
def tall(value):
    return ByRows.of(value, STEP, room=0)


def same(one, two):
    assert torch.allclose(one.mean, two.mean, rtol=1e-12)
    assert torch.allclose(one.var, two.var, rtol=1e-12)


def test_shape_and_kind_are_known_without_computing(value):
    asked = []

    def make(rows):
        asked.append(rows)
        return Gaussian(value.mean[rows], value.var[rows])

    tall = ByRows(make, NODES, STEP, room=0)
    assert (len(tall), tall.shape, tall.dtype) == (NODES, (NODES, 3), torch.float64)
    assert asked == [slice(0, 1)]
    same(tall, value)
    same(tall, value)
    blocks = range(0, NODES, STEP)
    assert asked[1:] == [slice(first, min(first + STEP, NODES)) for first in blocks]


def test_it_settles_only_where_there_is_room(value):
    calls = []

    def make(rows):
        calls.append(rows)
        return Gaussian(value.mean[rows], value.var[rows])

    size = 2 * NODES * 3 * 8
    for room, kept in [(size - 1, False), (size, True)]:
        tall = ByRows(make, NODES, NODES, room=room)
        tall.settle()
        calls.clear()
        same(tall.rows(slice(16, 20)), Gaussian(value.mean[16:20], value.var[16:20]))
        assert (calls == []) is kept


@pytest.mark.parametrize(
    "rule",
    [
        relu,
        lambda x: linear(x, torch.arange(12.0).double().view(4, 3), torch.ones(4).double()),
        lambda x: add(x, x),
        lambda x: mul(x, x),
        lambda x: add(x, 2.0),
        lambda x: add(relu(x), x),
        lambda x: mul(x, torch.tensor([1.0, 2.0, 3.0]).double()),
    ],
)
def test_rules_of_nodes_stay_by_rows(rule, value, tall):
    found = rule(tall)
    assert isinstance(found, ByRows)
    same(found, rule(value))


def test_numbers_of_every_node_are_not_cut_into_blocks(value, tall):
    shift = torch.randn(NODES, 1).double()
    found = add(tall, shift)
    assert not isinstance(found, ByRows)
    same(found, add(value, shift))


def test_a_rule_that_looks_at_all_nodes_gets_them_whole(value, tall):
    seen = []

    @by_node
    def note(x):
        seen.append(len(x))
        return x

    same(note(tall), value)
    assert max(seen) == STEP
    assert len(Gaussian.certain(tall.mean)) == NODES


@pytest.mark.parametrize("average", [False, True])
@pytest.mark.parametrize("chance", [None, 0.7])
def test_neighbour_sums(value, tall, average, chance):
    links = torch.randint(NODES, (2, 300), generator=torch.Generator().manual_seed(1))
    neighbours = neighbours_of(links, None, NODES, dtype=torch.float64, average=average)
    if chance is not None:
        neighbours = type(neighbours)(
            neighbours.target,
            neighbours.source,
            neighbours.weight,
            torch.full_like(neighbours.weight, chance),
            NODES,
        )
    found = neighbours.sum(tall)
    assert isinstance(found, ByRows)
    same(found, neighbours.sum(value))
