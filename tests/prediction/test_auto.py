"""Which method ``method="auto"`` takes, why, and that the answer is the one of that method."""

from unittest.mock import patch

import pytest
import torch
import torch_geometric.nn as gnn
from torch import nn

import varigraph as vg
from prediction.first_order.test_method import uncertain
from prediction.networks import Functional, made, noisy_ring, ring
from varigraph import rules
from varigraph.errors import GraphError, ModelError, OptionError
from varigraph.moments.registry import LAYERS

PARTS = ("features", "links", "weights", "interactions")


def by_node_and_feature():
    graph = ring()
    graph.x_var = (torch.arange(24).view(6, 4) % 5 + 1).double() / 10
    return graph


def largest_neighbour():
    return gnn.GraphSAGE(4, 8, 2, 3, dropout=0.3, aggr="max")


def uncertain_ring():
    return uncertain(noisy_ring(), 0.8)


def recurrent():
    return gnn.GCN(4, 8, 2, 3, dropout=0.3, jk="lstm")


RULES = "first-order", "every layer has a rule"
WITHOUT_MASKS = {"sources": ("features",)}
#: How many draws an answer takes at least which closed forms have the wrong distribution of.
ENOUGH = {"coins": 204}
#: Network, graph, options, the method to take and the reason to give.
CASES = {
    "rules": (Functional, noisy_ring, WITHOUT_MASKS, *RULES),
    "values": (
        Functional,
        uncertain_ring,
        {"links": "bernoulli", "task": "regression"},
        "first-order",
        "draws agree",
    ),
    "coins": (Functional, uncertain_ring, {"links": "bernoulli"}, "sampled", "have few values"),
    "regression": (Functional, noisy_ring, {"task": "regression"}, *RULES),
    "recurrent": (recurrent, noisy_ring, {}, "sampled", "no moment rule for 1 layer(s) of GCN"),
    "max": (
        largest_neighbour,
        uncertain_ring,
        {"links": "bernoulli", "task": "regression"},
        "sampled",
        "no first-order response",
    ),
    "memory": (Functional, noisy_ring, {"memory": "18MiB"}, "sampled", "need 2"),
    "noise": (Functional, by_node_and_feature, WITHOUT_MASKS, *RULES),
}


@pytest.mark.parametrize("name", CASES)
def test_the_method_and_its_reason_are_named(name):
    build, graph, options, method, why = CASES[name]
    got = vg.predict(made(build), graph(), samples=40, **options)
    taken, reason = got.method.split(": ", 1)
    assert taken == method
    assert why in reason
    assert "\n" not in got.method
    assert not got.method.endswith(":")


@pytest.mark.parametrize("name", CASES)
def test_the_answer_is_that_of_the_method_it_names(name):
    build, graph, options, method, _ = CASES[name]
    draws = ENOUGH.get(name, 40)
    got = vg.predict(made(build), graph(), samples=40, seed=3, **options)
    want = vg.predict(made(build), graph(), samples=draws, seed=3, method=method, **options)
    assert torch.equal(got.mean, want.mean)
    assert torch.equal(got.logits.mean, want.logits.mean)
    assert torch.equal(got.logits.var, want.logits.var)
    assert all(torch.equal(got.by_source[part], want.by_source[part]) for part in PARTS)
    assert (got.samples, got.task) == (want.samples, want.task)
    assert got.samples == (0 if method == "first-order" else draws)
    assert (got.std_error is None) == (method == "first-order")


def test_auto_is_what_is_taken_by_default():
    model, graph = made(Functional), noisy_ring()
    assert vg.predict(model, graph).method == vg.predict(model, graph, method="auto").method


def test_more_memory_brings_the_closed_form_back():
    model, graph = made(Functional), noisy_ring()
    little, enough = (
        vg.predict(model, graph, samples=40, memory=m, task="regression")
        for m in ("18MiB", "64MiB")
    )
    assert little.method.startswith("sampled: the layers and the answer of 6 nodes need ")
    assert enough.method.startswith("first-order: ")


def test_without_masks_something_is_drawn_all_the_same():
    model = made(recurrent)
    got = vg.predict(model, noisy_ring(), samples=0)
    want = vg.predict(model, noisy_ring(), method="sampled", sources=("features", "links"))
    assert got.samples == want.samples == 100
    assert torch.equal(got.total, want.total)
    assert not got.epistemic.any()
    assert bool((got.by_source["features"] > 0).all())


def test_mistakes_are_not_taken_for_a_missing_rule():
    model, graph = made(Functional), noisy_ring()
    with pytest.raises(ModelError, match="a tuple with 2"):
        vg.predict(model, graph, forward=lambda m, x, d: (x, x))
    with pytest.raises(OptionError, match="node 9"):
        vg.predict(model, graph, nodes=[9])
    with pytest.raises(ModelError, match="one value per class"):
        vg.predict(made(lambda: nn.Linear(4, 1)), graph, samples=0, forward=lambda m, x, d: m(x))
    graph.x_var = -1.0
    with pytest.raises(GraphError, match="x_var"):
        vg.predict(model, graph)


class Unit(nn.Module):
    """A layer norm by hand, of three features."""

    def forward(self, x):
        centred = x - x.mean(-1, keepdim=True)
        return centred / centred.square().mean(-1, keepdim=True).sqrt()


def frozen(layer, x):
    """A rule that takes the spread of the means as certain, and the average as well."""
    factor = 1 / x.mean.std(-1, keepdim=True, correction=0)
    out = vg.Gaussian(Unit.forward(layer, x.mean), factor.square() * x.var)
    return rules.recorded(out, (x, rules.Scale(factor)))


class Opposed(nn.Module):
    """Logits that move together, and apart only along what a layer norm takes away.

    With its statistics frozen the norm keeps the direction of x itself, which it really scales
    out: each logit has nearly the right variance, their difference one that is not there.
    """

    def __init__(self) -> None:
        super().__init__()
        self.norm = Unit()
        self.head = nn.Linear(3, 2, bias=False)
        together, apart = torch.tensor([10.0, -20.0, 10.0]), torch.tensor([1.0, 0.0, -1.0])
        self.head.weight.data = torch.stack([together + apart, together - apart])

    def forward(self, x, edge_index):
        return self.head(self.norm(x))


def test_approximate_rules_are_held_to_the_answer_and_not_to_logits_alone():
    graph = ring(20, 3)
    graph.x = torch.tensor([[1.0, 0.0, -1.0]]).repeat(20, 1).double()
    graph.x_var = 1e-4
    model = Opposed().double()
    with patch.dict(LAYERS):
        rules.implements(Unit, exactness="approximate")(frozen)
        closed = vg.predict(model, graph, method="first-order", samples=0)
        got = vg.predict(model, graph, samples=0)
    drawn = vg.predict(model, graph, method="sampled", samples=4000)
    assert float(closed.logits.var.sum() / drawn.logits.var.sum()) == pytest.approx(1, abs=0.1)
    assert float(closed.total.sum()) > 100 * float(drawn.total.sum())
    assert got.method.startswith("sampled: the rule of")
    assert float(got.total.sum() / drawn.total.sum()) == pytest.approx(1, abs=0.5)


class ChangesPart(nn.Module):
    """Makes some columns smaller, in place."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = gnn.GraphConv(4, 8), gnn.GraphConv(8, 2)

    def forward(self, x, edge_index):
        hidden = self.first(x, edge_index)
        hidden[:, :4].mul_(0.1)
        return self.second(hidden, edge_index)


def test_parts_that_are_changed_in_place_are_sampled():
    model, graph = made(ChangesPart), noisy_ring()
    got = vg.predict(model, graph, task="regression", samples=2000)
    assert got.method.startswith("sampled: the model changes part of a value in place")
    draws = torch.Generator().manual_seed(0)
    noise = graph.x_var**0.5 * torch.randn(4000, *graph.x.shape, generator=draws).double()
    with torch.no_grad():
        runs = torch.stack([model(graph.x + each, graph.edge_index) for each in noise])
    assert float(got.total.sum() / runs.var(0).sum()) == pytest.approx(1, abs=0.1)
