"""Mistakes that users make: each ends in an answer, or in an error of ours with a remedy."""

import copy
import math

import numpy as np
import pytest
import torch
import torch_geometric.nn as gnn
from torch import nn
from torch_geometric.data import Data

import varigraph as vg
from varigraph.errors import (
    GraphError,
    MissingRuleError,
    ModelError,
    OptionError,
    VarigraphError,
)

NODES, FEATURES, LINKS = 8, 4, 16
METHODS = ["auto", "first-order", "covariance", "diagonal", "sampled"]
pytestmark = pytest.mark.filterwarnings("ignore:the network has no dropout")


def ring(**fields):
    """A ring of eight nodes, as a graph that has nothing wrong with it but these fields."""
    node = torch.arange(NODES)
    links = torch.stack([node, (node + 1) % NODES])
    draw = torch.Generator().manual_seed(0)
    graph = Data(
        x=torch.rand(NODES, FEATURES, generator=draw),
        edge_index=torch.cat([links, links.flip(0)], dim=1),
        x_var=0.01,
        y=node % 3,
        train_mask=node < 4,
        val_mask=node >= 4,
    )
    for name, value in fields.items():
        graph[name] = value
    return graph


def network(**options):
    torch.manual_seed(0)
    return gnn.GraphSAGE(FEATURES, 6, 2, 3, **{"dropout": 0.5, **options}).eval()


def predict(model=None, graph=None, **options):
    model = network() if model is None else model
    return vg.predict(model, graph or ring(), **{"samples": 4, **options})


def refusal(call):
    """The error of ours that a call ends in."""
    with pytest.raises(VarigraphError) as caught:
        call()
    assert caught.value.remedy
    return caught.value


class Answering(nn.Module):
    """A network whose answer is made into something else."""

    def __init__(self, change):
        super().__init__()
        self.inner, self.change = network(), change

    def forward(self, x, edge_index):
        return self.change(self.inner(x, edge_index))


# ---- options ----

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
    "task": ["typo", None, 3, []],
    "method": ["typo", None, 3, [], {}],
    "links": ["typo", None, 3, []],
    "weights": ["typo", 3, []],
    "sources": ["features", [], ["typo"], 3, [["features"]], [None]],
    "forward": [3, "typo", lambda model: model, lambda model, x, data: None],
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


# ---- graphs ----

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


# ---- models ----


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("method", METHODS)
def test_half_precision_is_refused(method, dtype):
    graph = ring()
    graph.x = graph.x.to(dtype)
    error = refusal(lambda: predict(network().to(dtype), graph, method=method))
    assert "model.float()" in error.remedy
    assert (
        "is torch.float32" in refusal(lambda: predict(network().to(dtype), method=method)).problem
    )


@pytest.mark.parametrize("method", METHODS)
def test_feature_counts_that_do_not_fit_are_both_named(method):
    error = refusal(lambda: predict(graph=ring(x=torch.rand(NODES, 7)), method=method))
    assert "takes 4 features, graph.x has 7" in error.problem


@pytest.mark.parametrize(
    ("change", "culprit"),
    [
        (lambda out: out + 1j, "complex64"),
        (lambda out: out > 0, "bool"),
        (lambda out: out.long(), "int64"),
        (lambda out: out.sum(), "shape"),
        (lambda out: out[:, None], "shape"),
        (lambda out: out[:0], "shape"),
        (lambda out: None, "NoneType"),
        (lambda out: {"out": out}, "dict"),
        (lambda out: out * math.nan, "finite"),
        (lambda out: 1 / 0, "ZeroDivisionError"),
        (lambda out: out.nothing, "nothing"),
        (lambda out: out[:, :2] @ torch.eye(3), "RuntimeError"),
    ],
)
@pytest.mark.parametrize("method", METHODS)
def test_answers_of_another_form(method, change, culprit):
    error = refusal(lambda: predict(Answering(change), method=method, task="regression"))
    assert isinstance(error, ModelError)
    assert culprit in error.problem or isinstance(error, MissingRuleError)


@pytest.mark.parametrize("row", [lambda out: out[:, 0], lambda out: out.sum(-1)])
def test_one_number_per_node_is_a_column(row):
    for method in ("auto", "diagonal", "sampled"):
        options = {"method": method, "task": "regression"}
        wanted = predict(Answering(lambda out: row(out).unsqueeze(-1)), **options)
        found = predict(Answering(row), **options)
        assert found.mean.shape == (NODES, 1)
        assert torch.equal(found.total, wanted.total)
    for method in ("first-order", "covariance"):
        refusal(lambda m=method: predict(Answering(row), method=m, task="regression"))


class TakesData(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = network()

    def forward(self, data):
        return self.inner(data.x, data.edge_index)


class TakesWeights(TakesData):
    def forward(self, x, adj, edge_weight):
        return self.inner(x, adj)


class TakesNames(TakesData):
    def forward(self, *, x, edge_index):
        return self.inner(x, edge_index)


@pytest.mark.parametrize("model", [TakesData, TakesWeights, TakesNames])
@pytest.mark.parametrize("method", METHODS)
def test_the_remedy_for_another_call_works(method, model):
    graph = ring(edge_weight=torch.ones(LINKS))
    error = refusal(lambda: predict(model(), graph, method=method))
    name, _, code = error.remedy.partition("=")
    assert name == "forward"
    found = predict(model(), graph, method=method, forward=eval(code, {"copy": copy}))
    assert torch.equal(found.total, predict(model().inner, graph, method=method).total)


def test_a_network_without_forward():
    assert "forward" in refusal(lambda: predict(nn.ModuleList([nn.Linear(4, 3)]))).problem


@pytest.mark.parametrize("model", [None, 3, "model", gnn.GraphSAGE, lambda x, links: x])
def test_what_is_no_network(model):
    assert isinstance(refusal(lambda: vg.predict(model, ring())), ModelError)


def test_networks_without_numbers():
    assert "meta" in refusal(lambda: predict(network().to("meta"))).problem
    assert "meta" in refusal(lambda: predict(network().to("meta"), ring().to("meta"))).problem


@pytest.mark.filterwarnings("ignore:`torch.jit:DeprecationWarning")
def test_traced_networks_are_refused():
    traced = torch.jit.trace(nn.Linear(FEATURES, 3), ring().x)
    error = refusal(lambda: predict(traced, forward=lambda model, x, data: model(x)))
    assert "torch.jit" in error.problem


@pytest.mark.parametrize("method", METHODS)
def test_compiled_networks_are_answered_as_written(method):
    model = network()
    compiled = torch.compile(network(), backend="eager")
    assert torch.equal(predict(compiled, method=method).total, predict(model, method=method).total)


class Float64ByDefault:
    def __enter__(self):
        torch.set_default_dtype(torch.float64)

    def __exit__(self, *_):
        torch.set_default_dtype(torch.float32)


SURROUNDINGS = {
    "inference": torch.inference_mode,
    "no_grad": torch.no_grad,
    "autocast": lambda: torch.autocast("cpu", dtype=torch.bfloat16),
    "float64": Float64ByDefault,
}


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("around", SURROUNDINGS.values(), ids=SURROUNDINGS)
def test_what_is_switched_on_around_it_does_not_matter(around, method):
    model, graph = network(), ring(edge_prob=torch.full((LINKS,), 0.9))
    wanted = predict(model, graph, method=method)
    with around():
        found = predict(model, graph, method=method)
    assert found.mean.dtype == torch.float32
    assert torch.allclose(found.total, wanted.total, rtol=1e-5)


def test_numbers_that_overflow_are_not_an_answer():
    graph = ring()
    graph.x = graph.x * 1e30
    model = network(act=None)
    with torch.no_grad():
        model.convs[0].lin_r.weight.mul_(1e9)
    assert isinstance(refusal(lambda: predict(model, graph, task="regression")), ModelError)


# ---- the other functions ----


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
        *[("node", value) for value in (-1, NODES, 1.0, None, True, "a", [3], 2**70)],
        *[("output", value) for value in (-1, 3, 1.0, "a", True)],
        *[("task", value) for value in ("typo", None, [], {})],
        *[("of", value) for value in ("typo", 3, [], "value")],
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


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *[("noise", value) for value in ("typo", 3, [])],
        *[("epochs", value) for value in (0, 1.5, "a", None, True)],
        *[("batch_size", value) for value in (0, 1.5, "a", True)],
        *[("batch_size", 2**70), ("progress", 3), ("progress", lambda epoch: epoch)],
        *[("patience", value) for value in (0, 1.5, "a")],
        *[("learning_rate", value) for value in (-1, math.nan, "a", None)],
        *[("weight_decay", value) for value in (-1, math.nan, "a", None)],
        *[("fanouts", value) for value in ([], [0], [1.5], "ab", None, 3, [None], [2**70])],
    ],
)
def test_training_with_options_that_make_no_sense(name, value):
    refusal(lambda: vg.train(network(), ring(), **{"epochs": 1, name: value}))


@pytest.mark.parametrize(
    ("fields", "culprit"),
    [
        ({"y": torch.full((NODES,), 9)}, "labels up to 9"),
        ({"y": [0] * NODES}, "y"),
        ({"y": torch.zeros(NODES, device="meta").long()}, "y is on meta"),
        ({"y": torch.rand(NODES)}, "y"),
        ({"train_mask": torch.ones(NODES)}, "train_mask"),
        ({"train_mask": [True] * NODES}, "train_mask"),
        ({"val_mask": torch.arange(NODES)}, "val_mask"),
    ],
)
def test_training_without_truth(fields, culprit):
    assert culprit in refusal(lambda: vg.train(network(), ring(**fields), epochs=1)).problem


@pytest.mark.parametrize(
    "change",
    [
        lambda out: None,
        lambda out: (out, out),
        lambda out: out[:3],
        lambda out: out.argmax(1),
        lambda out: 1 / 0,
        lambda out: out.view(NODES, 3),  # but batches have fewer nodes
    ],
)
def test_training_networks_that_do_not_classify(change):
    refusal(lambda: vg.train(Answering(change), ring(), epochs=1, batch_size=2))


def test_training_takes_numbers_of_numpy_and_any_surroundings():
    with torch.no_grad():
        history = vg.train(
            network(),
            ring(y=ring().y.int()),
            epochs=np.int64(1),
            seed=np.int64(1),
            fanouts=np.array([2]),
        )
    assert len(history.loss) == 1
