"""Options of ``vg.predict`` that make no sense, and odd ones that do."""

import math

import numpy as np
import pytest
import torch

from bad_inputs.cases import (
    METHODS,
    NODES,
    network,
    predict,
    refusal,
    ring,
)
from varigraph.errors import ModelError, OptionError

pytestmark = pytest.mark.filterwarnings("ignore:the network has no dropout")


BAD_OPTIONS = {
    "nodes": [
        [-1], [], {1, 2}, set(), "abc", ["a"], 3, True, [1.0], [[1, 2]], [None], [1, "a"], [2**70],
        [[1], [2, 3]], slice(2), object(), [False] * NODES, [True], [NODES], iter([1]),
        torch.tensor([1.5]), torch.tensor([1j]), torch.tensor([1], device="meta"),
    ],
    "dropout": [1.0, 0.0, "0.1", math.nan, -0.1, 2, True, [0.1], 0.1j, np.array([0.1, 0.2])],
    "seed": [2**64, 2**63, -1, True, 1.0, "1", None, [1], math.nan],
    "samples": [-1, 1.0, "3", None, True, 2**70, math.nan, [3]],
    "memory": ["", "abc", "-1GiB", 0, None, math.nan, "9" * 400 + "GiB", [1], b"1GiB"],
    "task": ["typo", 3, [], ""],
    "method": ["typo", None, 3, [], {}],
    "links": ["typo", None, 3, []],
    "weights": ["typo", 3, []],
    "sources": ["features", [], ["typo"], 3, [["features"]], [None]],
    "forward": [3, "typo", lambda model: model, lambda model, x, data: None],
    "output": ["typo", 3, -1],
    "links_to_score": [3, "a", [[0, 1]], [[0], [NODES]], [[0.5], [1.0]]],
    "progress": [3, "a", lambda done: done],
}  # fmt: skip


@pytest.mark.parametrize(
    ("name", "value"),
    [(name, value) for name, values in BAD_OPTIONS.items() for value in values],
)
def test_options_that_make_no_sense(name, value):
    error = refusal(lambda: predict(network(dropout=0.0), **{name: value}))
    assert isinstance(error, (OptionError, ModelError))
    assert name in error.problem or (name == "nodes" and "node" in error.problem)


ONE_AND_TWO = {
    "array": np.array([1, 2]),
    "uint64": np.array([1, 2], dtype=np.uint64),
    "int8": torch.tensor([1, 2], dtype=torch.int8),
    "range": range(1, 3),
    "mask": [False, True, True, *[False] * 5],
    "names": ["one", "two"],
}


@pytest.mark.parametrize("method", METHODS)
def test_nodes_in_any_form(method):
    graph = ring(node_names=["zero", "one", "two", *"abcde"])
    every = predict(graph=graph, method=method).total
    for form, nodes in ONE_AND_TWO.items():
        some = predict(graph=graph, method=method, nodes=nodes).total
        assert torch.allclose(some, every[1:3], rtol=1e-5, atol=1e-9), form


def test_names_that_are_not_there_are_named():
    graph = ring(node_names=["zero", "zero", *"abcdef"])
    assert (
        "no node is called 'nobody'"
        in refusal(lambda: predict(graph=graph, nodes=["nobody"])).problem
    )
    assert "more than one node" in refusal(lambda: predict(graph=graph, nodes=["zero"])).problem
    assert "no node_names" in refusal(lambda: predict(nodes=["zero"])).problem


@pytest.mark.parametrize("number", [np.int64(4), np.uint8(4), torch.tensor(4), np.array(4)])
def test_numbers_of_numpy_and_torch_are_numbers(number):
    wanted = predict(method="diagonal", seed=4)
    assert torch.equal(predict(method="diagonal", samples=number, seed=number).total, wanted.total)


@pytest.mark.parametrize(
    "options",
    [
        {"method": "diagonal"},
        {"method": "sampled"},
        {"method": "first-order", "weights": "sampled"},
        {"method": "covariance", "weights": "sampled"},
        {"method": "auto", "weights": "sampled"},
    ],
)
def test_one_mask_has_no_spread(options):
    assert "samples=1 is too few" in refusal(lambda: predict(samples=1, **options)).problem


def test_one_mask_is_enough_where_none_is_drawn():
    assert predict(samples=1, method="first-order").epistemic.any()
    assert predict(samples=1, method="diagonal", sources=["features"]).total.any()
