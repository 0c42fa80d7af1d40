"""The guise behaves as the tensor whose place it takes."""

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from varigraph.errors import MissingRuleError
from varigraph.moments import Gaussian, StandIn


def guise():
    return StandIn(Gaussian(torch.tensor([[-1.0, 2.0], [3.0, 0.5]]), torch.ones(2, 2)))


def test_it_has_the_methods_that_the_value_has_as_attributes():
    assert guise().mean(dim=0).value.mean.tolist() == [[1.0, 1.25]]
    assert guise().mean(0).value.var.tolist() == [[0.5, 0.5]]


def test_it_answers_questions_about_its_shape():
    x = guise()
    assert (x.shape, x.size(0), x.dim(), x.dtype, len(x)) == (
        torch.Size([2, 2]),
        2,
        2,
        torch.float32,
        2,
    )
    assert x.new_zeros(3).tolist() == [0.0] * 3


def test_in_place_functions_change_it_for_everyone():
    x = guise()
    alias = x
    nn.ReLU(inplace=True)(x)
    x += 1.0
    assert alias.value.mean.min().item() > 1.0
    want = F.relu(guise().value).mean + 1
    assert torch.equal(alias.value.mean, want)


def test_a_plain_tensor_filled_in_place_is_poisoned_not_silently_wrong():
    out = torch.zeros(1, 2)
    returned = out.scatter_add_(0, torch.zeros(2, 2, dtype=torch.long), guise())
    assert returned.value.mean.tolist() == [[2.0, 2.5]]
    assert bool(out.isnan().all())


def test_the_same_noise_twice_adds_up_before_it_is_squared():
    x = guise()
    assert (x + x).value.var.tolist() == [[4.0, 4.0], [4.0, 4.0]]
    assert (x - x).value.var.tolist() == [[0.0, 0.0], [0.0, 0.0]]


def test_work_after_a_softmax_takes_its_derivatives_and_picking_rows_does_not():
    shares = F.log_softmax(guise(), dim=-1)
    assert shares[0].value.mean.tolist() == [[-1.0, 2.0]]
    more = shares + 1.0
    assert torch.allclose(more.value.mean, guise().value.mean.log_softmax(-1) + 1)


def test_tuples_and_lists_are_looked_into():
    first, second = torch.split(guise(), 1)
    assert torch.cat([second, first]).value.mean[0].tolist() == [3.0, 0.5]
    values, _ = torch.stack([guise(), guise()], -1).max(dim=-1)
    assert values.shape == (2, 2)


@pytest.mark.parametrize(
    "call",
    [
        lambda x: x == 0,
        lambda x: x != 0,
        float,
        lambda x: 2**x,
        lambda x: x.T,
        lambda x: 1.0 in x,
    ],
)
def test_what_python_would_answer_silently_is_refused(call):
    with pytest.raises(MissingRuleError):
        call(guise())


def test_attributes_that_no_tensor_has_are_missing():
    with pytest.raises(AttributeError, match="has no attribute 'colour'"):
        _ = guise().colour


# ---- parts that are changed in place ----


@pytest.mark.parametrize(
    "part",
    [lambda x: x[:, :1], lambda x: x[0], lambda x: x.view(4), lambda x: x.reshape(2, 2),
     lambda x: x.transpose(0, 1), lambda x: x.unsqueeze(0), lambda x: x.chunk(2, 1)[0],
     lambda x: F.dropout(x, 0.5, training=False)],
)  # fmt: skip
def test_a_value_of_which_a_part_was_changed_is_of_no_use(part):
    x = guise()
    seen, other = part(x), x[:, 1:]
    seen.mul_(0.1)
    assert seen.value.var.max().item() == pytest.approx(0.01)
    for stale in (x, other):
        with pytest.raises(MissingRuleError, match="changes part of a value in place"):
            stale + 1


def test_a_part_of_a_value_that_was_changed_is_of_no_use():
    x = guise()
    part = x[:, :1]
    x.mul_(0.1)
    assert (x + 1).value.var.max().item() == pytest.approx(0.01)
    with pytest.raises(MissingRuleError, match="changes part of a value in place"):
        part + 1


def test_a_copy_is_changed_alone():
    x = guise()
    for copy in (x[torch.tensor([1, 0])], x + 0, x.clone() if hasattr(x, "clone") else x * 1):
        copy.mul_(0.1)
    assert (x + 1).value.var.tolist() == [[1.0, 1.0], [1.0, 1.0]]
