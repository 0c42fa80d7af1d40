"""Functions that look at axes: moments and responses against the function itself, by torch."""

import pytest
import torch
from torch.nn import functional as F

from varigraph.errors import MissingRuleError
from varigraph.moments import Gaussian, Propagation, StandIn, propagating
from varigraph.moments.propagation import recorded
from varigraph.moments.tape import Tape
from varigraph.prediction.first_order.responses import walk_back

GENERATOR = torch.Generator().manual_seed(0)
MEAN = torch.randn(5, 6, generator=GENERATOR, dtype=torch.float64)
VAR = torch.rand(5, 6, generator=GENERATOR, dtype=torch.float64)
ROWS = torch.tensor([4, 0, 0, 2])
WEIGHT = torch.randn(2, 3, generator=GENERATOR, dtype=torch.float64)
MATRIX = torch.randn(3, 5, generator=GENERATOR, dtype=torch.float64)
GROUPS = torch.tensor([1, 0, 1, 2, 1])

#: Linear functions of rows of six numbers.
LINEAR = {
    "heads": lambda x: x.view(-1, 2, 3).sum(-1),
    "heads, mean": lambda x: x.view(-1, 2, 3).mean(1),
    "scores": lambda x: (x.view(-1, 2, 3) * WEIGHT).sum(dim=-1),
    "one column": lambda x: x[:, 2],
    "some columns": lambda x: x[:, [5, 0, 0]],
    "a slice": lambda x: x[1:4, ::2],
    "one row": lambda x: x[3],
    "by index": lambda x: x.index_select(0, ROWS),
    "by rows": lambda x: x[ROWS],
    "by a mask": lambda x: x[torch.tensor([True, False, True, True, False])],
    "columns turned": lambda x: x.flip(1),
    "heads turned": lambda x: x.view(-1, 2, 3).transpose(1, 2).flatten(1),
    "new axes": lambda x: x.unsqueeze(1).squeeze(1).unsqueeze(-1)[..., 0],
    "in parts": lambda x: torch.cat(x.chunk(3, dim=1)[::-1], dim=-1),
    "beside itself": lambda x: torch.cat([x, 2 * x, torch.ones_like(x[:, :1])], 1),
    "below itself": lambda x: torch.cat([x, x[:2]], 0),
    "stacked": lambda x: torch.stack([x, 3 * x], dim=-1).sum(-1),
    "stacked in front": lambda x: torch.stack([x, 3 * x]).sum(0),
    "mean of a stack": lambda x: torch.stack([x[:2], x[2:4], x[1:3]]).mean(0),
    "mean of a stack of heads": lambda x: torch.stack([x[:2], x[3:]]).view(2, 2, 2, 3).mean((0, 1)),
    "out of a stack": lambda x: torch.stack([x, x * 2])[1],
    "a stack turned": lambda x: torch.stack([x[:2], x[3:]]).transpose(0, 1),
    "all rows": lambda x: x.sum(0),
    "mean of rows": lambda x: x.mean(0, keepdim=True),
    "everything": lambda x: x.sum(),
    "less its mean": lambda x: x - x.mean(0),
    "rows summed": lambda x: MATRIX @ x,
    "sparse": lambda x: torch.sparse.mm(MATRIX.to_sparse(), x),
    "columns mapped": lambda x: x @ MATRIX.new_ones(6, 2),
    "heads mapped": lambda x: F.linear(x.view(-1, 2, 3), WEIGHT).flatten(1),
    "in groups": lambda x: x.new_zeros(4, 6).index_add(0, GROUPS, x),
    "scattered": lambda x: x.new_zeros(4, 6).scatter_add(0, GROUPS[:, None].expand_as(x), x),
    "heads scattered": lambda x: (
        x.new_zeros(4, 2, 3)
        .scatter_add_(0, GROUPS[:, None, None].expand(5, 2, 3), x.view(5, 2, 3))
        .flatten(1)
    ),
    "messages": lambda x: x.new_zeros(4, 6).index_add(
        0, GROUPS[:4], x.index_select(0, ROWS) * MATRIX[0, :4, None]
    ),
    "messages of heads": lambda x: (
        x.new_zeros(4, 2, 3)
        .index_add(
            0,
            GROUPS[:4],
            x.view(-1, 2, 3).index_select(0, ROWS) * MATRIX[:2, :4].T.unsqueeze(-1),
        )
        .flatten(1)
    ),
}


#: Those in which a number occurs more than once.
REPEATING = {"less its mean", "below itself", "stacked", "stacked in front", "mean of a stack"}


@pytest.mark.parametrize("name", LINEAR)
def test_means_variances_and_responses_are_those_of_the_function(name):
    function, tape = LINEAR[name], Tape()
    want = function(MEAN)
    jacobian = torch.autograd.functional.jacobian(function, MEAN).reshape(want.numel(), -1)
    with propagating(Propagation(tape=tape)):
        x = recorded(Gaussian(MEAN, VAR))
        found = function(StandIn(x))
        value = found.value
    assert found.shape == want.shape
    assert torch.allclose(value.mean.reshape(want.shape), want)
    rows = torch.arange(len(value))
    pairs = walk_back(tape, value, rows, until={x.number}).of[x.number]
    response = torch.zeros(len(rows), value.shape[1], *MEAN.shape, dtype=torch.float64)
    response[pairs.row, :, pairs.column] = pairs.values
    assert torch.allclose(response.reshape(want.numel(), -1), jacobian)


@pytest.mark.parametrize("name", sorted(set(LINEAR) - REPEATING))
def test_variances_add_up_where_numbers_are_independent(name):
    function = LINEAR[name]
    found = function(StandIn(Gaussian(MEAN, VAR)))
    jacobian = torch.autograd.functional.jacobian(function, MEAN).flatten(-2)
    assert torch.allclose(found.value.var.reshape(found.shape), jacobian.square() @ VAR.flatten())


def test_numbers_that_cross_rows_have_moments_and_no_response():
    tape = Tape()
    with propagating(Propagation(tape=tape)):
        found = StandIn(recorded(Gaussian(MEAN, VAR))).t()
    assert torch.equal(found.value.mean, MEAN.T)
    assert torch.equal(found.value.var, VAR.T)
    with pytest.raises(MissingRuleError, match=r"t\(\) has no first-order response"):
        walk_back(tape, found.value, torch.tensor([0]), until=set())


def test_it_is_a_tensor_to_whoever_asks():
    x = StandIn(Gaussian(MEAN, VAR))
    assert isinstance(x, torch.Tensor)
    assert torch.is_tensor(x)
    assert x.view(-1, 2, 3).shape == (5, 2, 3)
    assert x[:, 0].shape == (5,)
    assert torch.zeros_like(x).equal(torch.zeros(5, 6, dtype=torch.float64))


def test_what_reaches_for_its_numbers_is_refused():
    x = StandIn(Gaussian(MEAN, VAR))
    for reach in (x.numpy, x.tolist, x.data_ptr, x.item):
        with pytest.raises(MissingRuleError):
            reach()
