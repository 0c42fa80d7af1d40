"""Mistakes in calls of the smaller functions."""

import math
from pathlib import Path

import pytest
import torch

import varigraph as vg
from bad_inputs.cases import NODES, network, refusal, ring
from varigraph.errors import DatasetError, OptionError

pytestmark = pytest.mark.filterwarnings("ignore:the network has no dropout")


@pytest.mark.parametrize("percent", [1e300, math.nan, -1, "5", None, [5], 1j, True, 10**400])
def test_senseless_noise(percent):
    refusal(lambda: vg.add_noise(ring(x_var=None), percent=percent))


@pytest.mark.parametrize("seed", [2**64, -1, 1.5, "a", None, True])
def test_senseless_seeds(seed):
    calls = [
        lambda: vg.add_noise(ring(x_var=None), percent=5, seed=seed),
        lambda: vg.train(network(), ring(), epochs=1, seed=seed),
        lambda: vg.audit(network(), ring(), samples=4, seed=seed),
        lambda: vg.paper_network(ring(), seed=seed),
        lambda: vg.link_probabilities(ring(), seed=seed),
    ]
    assert all(refusal(call).problem.startswith("seed=") for call in calls)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *[("node", value) for value in (-1, NODES, 1.0, True, "a", [3], 2**70)],
        *[("output", value) for value in (-1, 3, 1.0, "a", True)],
        *[("task", value) for value in ("typo", [], {})],
        *[("of", value) for value in ("typo", 3, [], "value")],
        *[("method", value) for value in ("typo", None, "diagonal")],
        *[("nodes", value) for value in ([1], "a")],
        *[("top", value) for value in (-1, 1.0, "a", None, True)],
        *[("links", value) for value in ("typo", None, [])],
        *[("forward", value) for value in (3, lambda model: model, lambda model, x, data: 1 / 0)],
    ],
)
def test_attribute_with_options_that_make_no_sense(name, value):
    refusal(lambda: vg.attribute(network(), ring(), **{"node": 0, name: value}))


def test_attribute_by_name_and_in_inference_mode():
    model, graph = network(), ring(node_names=list("abcdefgh"))
    wanted = vg.attribute(model, graph, 2).variance
    with torch.inference_mode():
        assert vg.attribute(model, graph, "c").variance == wanted


NO_PATHS = [3, 0, True, b"links.csv", [], ["links.csv"], {}, 1.5, object()]


@pytest.mark.parametrize("path", [None, *NO_PATHS, "~nobody-of-that-name/links.csv"])
def test_links_of_what_is_no_path(path):
    error = refusal(lambda: vg.read_links(path))
    assert isinstance(error, OptionError)
    assert error.problem.startswith("path=")


@pytest.mark.parametrize("name", ["cora", "pubmed"])
@pytest.mark.parametrize("root", [*NO_PATHS, "~nobody-of-that-name"])
def test_data_sets_in_what_is_no_path(name, root):
    error = refusal(lambda: vg.load(name, root=root))
    assert isinstance(error, OptionError)
    assert error.problem.startswith("root=")


@pytest.mark.parametrize("root", ["x" * 5000, "a\0b", Path("nowhere")])
def test_data_sets_in_folders_that_cannot_be(root):
    error = refusal(lambda: vg.load("pubmed", root=root))
    assert isinstance(error, DatasetError)
    assert "is not a folder" in error.problem
