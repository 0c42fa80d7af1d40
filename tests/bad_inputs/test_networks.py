"""Networks that cannot be followed, and surroundings that must not matter."""

import math

import pytest
import torch
import torch_geometric.nn as gnn
from torch import nn

import varigraph as vg
from bad_inputs.cases import (
    LINKS,
    METHODS,
    NODES,
    Answering,
    network,
    predict,
    refusal,
    ring,
)
from varigraph.errors import MissingRuleError, ModelError

pytestmark = pytest.mark.filterwarnings("ignore:the network has no dropout")


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
        (lambda out: {"out": out, "again": out}, "dict"),
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
    for method in METHODS:
        options = {"method": method, "task": "regression"}
        wanted = predict(Answering(lambda out: row(out).unsqueeze(-1)), **options)
        found = predict(Answering(row), **options)
        assert found.mean.shape == (NODES, 1)
        assert torch.equal(found.total, wanted.total)


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
def test_another_call_is_found_by_the_names_of_its_parameters(method, model):
    graph = ring(edge_weight=torch.ones(LINKS))
    found = predict(model(), graph, method=method)
    del graph.edge_weight
    assert torch.equal(found.total, predict(model().inner, graph, method=method).total)


@pytest.mark.parametrize("method", METHODS)
def test_what_a_call_needs_and_the_graph_lacks_is_named(method):
    error = refusal(lambda: predict(TakesWeights(), method=method))
    assert "needs edge_weight" in error.problem
    name, _, code = error.remedy.partition("say how it is called: ")[2].partition("=")
    assert name == "forward"
    assert predict(TakesData(), method=method, forward=eval(code.replace("model(", "model.inner(")))


def test_a_network_without_forward():
    assert "forward" in refusal(lambda: predict(nn.ModuleList([nn.Linear(4, 3)]))).problem


@pytest.mark.parametrize("model", [None, 3, "model", gnn.GraphSAGE, lambda x, links: x])
def test_what_is_no_network(model):
    assert isinstance(refusal(lambda: vg.predict(model, ring())), ModelError)


def test_networks_without_numbers():
    assert "meta" in refusal(lambda: predict(network().to("meta"))).problem
    assert "meta" in refusal(lambda: predict(network().to("meta"), ring().to("meta"))).problem


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
    wanted = predict(model, graph, method=method, links="bernoulli")
    with around():
        found = predict(model, graph, method=method, links="bernoulli")
    assert found.mean.dtype == torch.float32
    assert torch.allclose(found.total, wanted.total, rtol=1e-5)


def test_numbers_that_overflow_are_not_an_answer():
    graph = ring()
    graph.x = graph.x * 1e30
    model = network(act=None)
    with torch.no_grad():
        model.convs[0].lin_r.weight.mul_(1e9)
    assert isinstance(refusal(lambda: predict(model, graph, task="regression")), ModelError)


def stopping(out):
    """What ``next`` does when there is nothing left."""
    raise StopIteration("nothing left")


def stopping_forward(model, x, data):
    return stopping(x)


class StoppingLater(Answering):
    """A network that runs once, and then finds nothing left."""

    def __init__(self):
        super().__init__(lambda out: out)
        self.left = iter([1])

    def forward(self, x, edge_index):
        next(self.left)
        return super().forward(x, edge_index)


@pytest.mark.parametrize("method", METHODS)
def test_a_network_that_stops_like_an_iterator_is_quoted(method):
    for options in ({"model": Answering(stopping)}, {"forward": stopping_forward}):
        error = refusal(lambda given=options: predict(method=method, **given))
        assert isinstance(error, ModelError)
        assert "StopIteration: nothing left (test_networks.py" in error.problem
    error = refusal(lambda: predict(StoppingLater(), method=method))
    assert "StopIteration" in error.problem


@pytest.mark.parametrize("method", METHODS)
def test_surroundings_without_numbers_are_refused(method):
    model, graph = network(), ring(edge_prob=torch.full((LINKS,), 0.9))
    calls = [
        lambda: predict(model, graph, method=method),
        lambda: predict(model, ring_without_noise, method=method),
        lambda: vg.attribute(model, graph, 0),
        lambda: vg.audit(model, graph, samples=4),
        lambda: vg.train(model, graph, epochs=1),
    ]
    ring_without_noise = ring(x_var=None)
    with torch.device("meta"):
        errors = [refusal(call) for call in calls]
    assert all("new tensors on meta" in error.problem for error in errors)
