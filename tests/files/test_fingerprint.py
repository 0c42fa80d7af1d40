import pytest
import torch

from varigraph.files.fingerprint import fingerprint, tensor_fingerprint, weights_fingerprint

VALUES = torch.arange(6.0).reshape(2, 3)


def test_the_order_of_keys_does_not_count():
    assert fingerprint({"a": 1, "b": [2.5]}) == fingerprint({"b": [2.5], "a": 1})
    assert fingerprint({"a": 1}) != fingerprint({"a": 2})


@pytest.mark.parametrize(
    "other", [VALUES + 1e-6, VALUES.double(), VALUES.flatten(), VALUES.t(), VALUES[:1]]
)
def test_whatever_differs_in_a_tensor_is_noticed(other):
    assert tensor_fingerprint(other) != tensor_fingerprint(VALUES)


@pytest.mark.parametrize(
    "same", [VALUES.clone().requires_grad_(), VALUES.t().contiguous().t(), VALUES[:, :]]
)
def test_how_a_tensor_lies_in_memory_does_not_count(same):
    assert tensor_fingerprint(same) == tensor_fingerprint(VALUES)


def test_numbers_without_a_shape_have_one_too():
    assert tensor_fingerprint(torch.tensor(1)) != tensor_fingerprint(torch.tensor(2))


def test_weights_are_known_by_name_and_content():
    state = {"a": VALUES, "b": VALUES + 1}
    assert weights_fingerprint(state) == weights_fingerprint(dict(reversed(state.items())))
    assert weights_fingerprint(state) != weights_fingerprint({"a": VALUES + 1, "b": VALUES})
