"""Graphs that cannot be right, and odd ones that are."""

import math

import pytest
import torch
from torch_geometric.data import Data

import varigraph as vg
from bad_inputs.cases import FEATURES, LINKS, NODES, network, predict, refusal, ring
from varigraph.errors import GraphError

pytestmark = pytest.mark.filterwarnings("ignore:the network has no dropout")


BAD_GRAPHS = {
    "no x": ({"x": None}, "x"),
    "no links": ({"edge_index": None}, "edge_index"),
    "links out of range": ({"edge_index": torch.tensor([[0], [NODES]])}, "edge_index"),
    "negative links": ({"edge_index": torch.tensor([[0], [-1]])}, "edge_index"),
    "float links": ({"edge_index": torch.zeros(2, 3)}, "edge_index"),
    "int32 links": ({"edge_index": torch.zeros(2, 3, dtype=torch.int32)}, "edge_index"),
    "a row of links": ({"edge_index": torch.zeros(3, dtype=torch.long)}, "edge_index"),
    "links as a list": ({"edge_index": [[0], [1]]}, "edge_index"),
    "NaN": ({"x": torch.full((NODES, FEATURES), math.nan)}, "x"),
    "infinity": ({"x": torch.full((NODES, FEATURES), math.inf)}, "x"),
    "x without numbers": ({"x": torch.empty(NODES, FEATURES, device="meta")}, "meta"),
    "x of 8 bits": ({"x": torch.ones(NODES, FEATURES).to(torch.float8_e4m3fn)}, "float8"),
    "another number of nodes": ({"num_nodes": 5}, "num_nodes"),
    "NaN variance": ({"x_var": math.nan}, "x_var"),
    "negative variance": ({"x_var": -1.0}, "x_var"),
    "variance as text": ({"x_var": "0.1"}, "x_var"),
    "variance without numbers": ({"x_var": torch.tensor(0.1, device="meta")}, "x_var"),
    "variance too large": ({"x_var": 1e300}, "x_var"),
    "chance above 1": ({"edge_prob": torch.full((LINKS,), 1.5)}, "edge_prob"),
    "chance NaN": ({"edge_prob": torch.full((LINKS,), math.nan)}, "edge_prob"),
    "chance that rounds to 0": ({"edge_prob": torch.full((LINKS,), 1e-300).double()}, "edge_prob"),
    "sparse chances": ({"edge_prob": torch.full((LINKS,), 0.9).to_sparse()}, "edge_prob"),
    "chances of 8 bits": ({"edge_prob": torch.ones(LINKS).to(torch.float8_e4m3fn)}, "edge_prob"),
    "edge_probs": ({"edge_probs": torch.full((LINKS,), 0.9)}, "edge_prob"),
    "egde_prob": ({"egde_prob": torch.full((LINKS,), 0.9)}, "edge_prob"),
    "x_variance": ({"x_var": None, "x_variance": 0.1}, "x_var"),
    "X_var": ({"x_var": None, "X_var": torch.rand(FEATURES)}, "x_var"),
}  # fmt: skip


@pytest.mark.parametrize(("fields", "culprit"), BAD_GRAPHS.values(), ids=BAD_GRAPHS)
@pytest.mark.parametrize("function", ["predict", "attribute", "audit", "train"])
def test_graphs_that_cannot_be_right(function, fields, culprit):
    calls = {
        "predict": lambda graph: predict(graph=graph),
        "attribute": lambda graph: vg.attribute(network(), graph, 0),
        "audit": lambda graph: vg.audit(network(), graph, samples=4),
        "train": lambda graph: vg.train(network(), graph, epochs=1),
    }
    error = refusal(lambda: calls[function](ring(**fields)))
    assert isinstance(error, GraphError)
    assert culprit in error.problem


@pytest.mark.parametrize("graph", [None, 3, "cora", {}, (1, 2), [ring()], Data])
def test_what_is_no_graph(graph):
    assert isinstance(refusal(lambda: vg.predict(network(), graph)), GraphError)


@pytest.mark.parametrize("name", ["x_val", "edge_attr", "edge_type", "var", "pos", "x_raw"])
def test_a_graph_may_carry_anything_else(name):
    assert predict(graph=ring(**{name: torch.rand(LINKS)})).total.any()


def test_noise_that_is_there_allows_names_like_its_own():
    graph = ring(x_variance=torch.rand(FEATURES), edge_prob_names=["a"])
    assert predict(graph=graph).total.any()
