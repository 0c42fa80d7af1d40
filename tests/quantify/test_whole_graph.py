"""Blame agrees with prediction; all answers are the sum over nodes; plans keep their word."""

import itertools
import json

import pytest
import torch
import torch_geometric.nn as gnn
from torch import nn

import varigraph as vg
from prediction.networks import Functional, made, noisy_ring, ring
from varigraph.errors import GraphError, MissingRuleError, OptionError
from varigraph.prediction import memory
from varigraph.prediction.passes import NO_DROPOUT

ALL = 10**6


def uncertain(kind, **kwargs):
    """A ring with noise by number, by node or by node and feature, and uncertain links."""
    graph = noisy_ring(**kwargs)
    draw = torch.Generator().manual_seed(3)
    shape = {"number": (), "by node": (len(graph.x), 1), "by both": graph.x.shape}[kind]
    graph.x_var = 0.2 * torch.rand(shape, generator=draw).to(graph.x)
    chance = torch.linspace(0.7, 0.98, graph.num_nodes).to(graph.x)
    graph.edge_prob = torch.cat([chance, chance])
    return graph


NETWORKS = {
    "dropout": Functional,
    "linear": lambda: gnn.SGConv(4, 3, K=2),
    "SAGE": lambda: gnn.GraphSAGE(4, 6, 2, 3),
    "GCN": lambda: gnn.GCN(4, 6, 2, 3, act="tanh", dropout=0.3),
    "GIN": lambda: gnn.GIN(4, 6, 2, 3),
    "batch norm": lambda: gnn.GraphSAGE(4, 6, 2, 3, norm="batch_norm"),
    "GAT": lambda: gnn.GAT(4, 6, 2, 3, heads=2),
    "max": lambda: gnn.GraphSAGE(4, 6, 2, 3, aggr="max"),
}


@pytest.mark.filterwarnings(f"ignore:{NO_DROPOUT[:40]}")
@pytest.mark.parametrize(
    ("task", "links"),
    [("classification", "bernoulli"), ("multilabel", "bernoulli"), ("regression", "removed")],
)
@pytest.mark.parametrize("name", NETWORKS)
def test_value_variance_and_parts_are_those_of_predict(name, task, links):
    graph, model = uncertain("by both"), made(NETWORKS[name])
    links = "removed" if name == "max" else links  # a message of 0 is not none
    pred = vg.predict(model, graph, task=task, links=links)
    blame = vg.attribute(model, graph, 4, output=2, task=task, links=links)
    assert blame.method == pred.method
    assert blame.value == pytest.approx(float(pred.mean[4, 2]), rel=1e-5)
    assert blame.variance == pytest.approx(float(pred.total[4, 2]), rel=1e-5)
    for part, var in pred.by_source.items():
        want = max(float(var[4, 2]), 0)
        assert blame.by_source[part] == pytest.approx(want, rel=1e-5, abs=1e-12), part
    again = vg.attribute(model, graph, 4, output=2, links=links, prediction=pred, top=ALL)
    assert again.by_source == pytest.approx(blame.by_source)
    listed = sum(cause.variance for cause in again.features)
    assert listed == pytest.approx(again.by_source["features"], rel=1e-5)
    assert again.features[:20] == blame.features


@pytest.mark.parametrize("of", ["probability", "logit"])
@pytest.mark.parametrize("kind", ["number", "by node", "by both"])
@pytest.mark.parametrize("build", [NETWORKS["dropout"], NETWORKS["linear"]], ids=["bent", "linear"])
def test_all_answers_are_the_sum_over_nodes(build, kind, of):
    graph, model = uncertain(kind), made(build)
    options = {"links": "bernoulli", "of": of}
    pred = vg.predict(model, graph, links="bernoulli", samples=100 if build is Functional else 0)
    single = [
        vg.attribute(model, graph, node, output=output, top=ALL, prediction=pred, **options)
        for node, output in itertools.product(range(6), range(3))
    ]
    whole = vg.attribute(model, graph, **options)
    assert whole.variance == pytest.approx(sum(each.variance for each in single), rel=1e-6)
    for part, var in whole.by_source.items():
        assert var == pytest.approx(
            sum(each.by_source[part] for each in single), rel=1e-6, abs=1e-12
        )
    by_node, by_feature, by_link = torch.zeros(6), torch.zeros(4), torch.zeros(12)
    for each in single:
        for cause in each.features:
            by_node[cause.node] += cause.variance
            by_feature[cause.feature] += cause.variance
        for link in each.links:
            both = (graph.edge_index == torch.tensor([[link.source], [link.target]])).all(0)
            both |= (graph.edge_index == torch.tensor([[link.target], [link.source]])).all(0)
            by_link[both] += link.variance / 2
    assert torch.allclose(whole.by_node.float(), by_node, rtol=1e-4)
    assert torch.allclose(whole.by_feature.float(), by_feature, rtol=1e-4)
    assert torch.allclose(whole.by_link.float(), by_link, rtol=1e-4)


def test_some_answers_and_one_class():
    graph, model = uncertain("by both"), made(Functional)
    some = vg.attribute(model, graph, nodes=[1, 4], output=2, links="bernoulli")
    single = [vg.attribute(model, graph, n, output=2, links="bernoulli", top=ALL) for n in (1, 4)]
    assert (some.answers, some.output) == (2, 2)
    assert some.variance == pytest.approx(sum(each.variance for each in single))
    assert some.nodes[0].variance == pytest.approx(float(some.by_node.max()))
    want = sum(n.variance for each in single for n in each.nodes if n.node == some.nodes[0].node)
    assert some.nodes[0].variance == pytest.approx(want, rel=1e-6)


def test_sources_that_are_left_out_cause_nothing():
    graph, model = uncertain("by both"), made(Functional)
    options = {"links": "bernoulli", "sources": ("links",)}
    pred, blame = vg.predict(model, graph, **options), vg.attribute(model, graph, 3, **options)
    assert blame.variance == pytest.approx(float(pred.total[3, blame.output]), rel=1e-6)
    assert blame.by_source["links"] == blame.variance > 0
    assert blame.features == ()


def test_a_larger_graph_in_blocks_has_the_same_blame(monkeypatch):
    graph, model = uncertain("by node", nodes=200), made(Functional)
    whole = vg.attribute(model, graph, links="bernoulli")
    monkeypatch.setattr(memory, "AT_ONCE", {"cpu": 2**16})
    pieces = vg.attribute(model, graph, links="bernoulli")
    assert torch.allclose(whole.by_node, pieces.by_node, rtol=1e-5)
    assert torch.allclose(whole.by_feature, pieces.by_feature, rtol=1e-5)
    assert torch.allclose(whole.by_link, pieces.by_link, rtol=1e-5)


def test_the_text_of_all_answers():
    graph = uncertain("by both")
    graph.node_names = list("abcdef")
    whole = vg.attribute(made(Functional), graph, links="bernoulli")
    text = str(whole)
    assert text.startswith("6 answers, all probabilities: variance ")
    assert "the first 6 nodes, measured again, would take" in text
    assert "weights: train on more nodes like it" in text
    assert f"node {graph.node_names[whole.nodes[0].node]}" in text
    kept = json.loads(json.dumps(whole.to_dict()))
    assert kept["nodes"][0]["node"] == whole.nodes[0].node


def test_drawn_shares_are_never_negative_and_have_standard_errors():
    graph, model = uncertain("by both"), made(NETWORKS["max"])
    options = {"samples": 8, "method": "sampled"}
    pred = vg.predict(model, graph, **options)
    assert any(bool((var < 0).any()) for var in pred.by_source.values())
    for node in range(6):
        blame = vg.attribute(model, graph, node, prediction=pred)
        assert all(var >= 0 for var in blame.by_source.values())
        assert set(blame.std_error) == set(blame.by_source)
        assert " ± " in str(blame).splitlines()[3]


def test_what_cannot_be_asked():
    graph, drawn = uncertain("by both"), made(NETWORKS["max"])
    with pytest.raises(MissingRuleError, match="in closed form, and here there is none"):
        vg.attribute(drawn, graph, samples=4)
    with pytest.raises(OptionError, match="logits are divided over sources in closed form"):
        vg.attribute(drawn, graph, 0, of="logit", samples=4)
    with pytest.raises(OptionError, match="both node and nodes"):
        vg.attribute(made(Functional), graph, 0, nodes=[1])
    with pytest.raises(OptionError, match="3 outputs per node"):
        vg.attribute(made(Functional), graph, task="regression")
    some = vg.predict(made(Functional), graph, nodes=[0, 1], links="bernoulli")
    with pytest.raises(OptionError, match="the prediction has no answer for node 5"):
        vg.attribute(made(Functional), graph, 5, prediction=some, links="bernoulli")


def test_viewers_of_torch_geometric_show_it(tmp_path):
    graph, model = uncertain("by both"), made(Functional)
    options = {"links": "bernoulli", "method": "first-order"}
    blame = vg.attribute(model, graph, 2, top=ALL, **options)
    shown = blame.to_explanation(graph)
    for cause in blame.features:
        assert float(shown.node_mask[cause.node, cause.feature]) == pytest.approx(cause.share)
    largest = blame.links[0]
    ends = graph.edge_index[:, shown.edge_mask.argmax()].tolist()
    assert {largest.source, largest.target} == set(ends)
    assert int((shown.edge_mask > 0).sum()) == 2 * len(blame.links)
    shown.visualize_feature_importance(tmp_path / "features.png", top_k=3)
    assert (tmp_path / "features.png").stat().st_size > 0
    assert shown.get_explanation_subgraph().num_edges == 2 * len(blame.links)
    whole = vg.attribute(model, graph, **options)
    together = whole.to_explanation(graph)
    assert float(together.node_mask.sum()) == pytest.approx(
        whole.by_source["features"] / whole.variance, rel=1e-5
    )
    with pytest.raises(GraphError, match="6 nodes and 12 links, the explanation others"):
        vg.attribute(model, uncertain("by both", nodes=7)).to_explanation(graph)


# ---- plans ----


def instruments(nodes=16):
    """A ring of instruments with chords, a few of which are bad."""
    graph = ring(nodes, features=3)
    chords = torch.tensor([[0, 3, 8, 15], [7, 12, 13, 2]])
    graph.edge_index = torch.cat([graph.edge_index, chords, chords.flip(0)], 1)
    draw = torch.Generator().manual_seed(1)
    graph.x_var = (0.05 * torch.rand(nodes, 3, generator=draw).exp() ** 4).double()
    return graph


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = gnn.SAGEConv(3, 6), gnn.SAGEConv(6, 3)

    def forward(self, x, edge_index):
        return self.second(self.first(x, edge_index).tanh(), edge_index)


def total(model, graph, measured):
    known = graph.clone()
    known.x_var[list(measured)] = 0
    return float(vg.predict(model, known, samples=0, method="first-order").total.sum())


def test_a_plan_is_nearly_as_good_as_trying_everything_and_far_better_than_chance():
    graph, model, budget = instruments(), made(Net), 4
    found = vg.plan(model, graph, budget=budget, samples=0)
    tried = []
    while len(tried) < budget:
        left = [node for node in range(16) if node not in tried]
        tried.append(min(left, key=lambda node: total(model, graph, [*tried, node])))
    best = found.before - total(model, graph, tried)
    assert found.after == pytest.approx(total(model, graph, found.nodes), rel=1e-6)
    assert found.before == pytest.approx(total(model, graph, []), rel=1e-6)
    assert found.before - found.after >= 0.95 * best
    draw = torch.Generator().manual_seed(0)
    random = [torch.randperm(16, generator=draw)[:budget].tolist() for _ in range(10)]
    by_chance = sum(found.before - total(model, graph, nodes) for nodes in random) / 10
    assert found.before - found.after >= 2 * by_chance


def test_a_plan_for_some_answers_with_some_candidates():
    graph, model = instruments(), made(Net)
    found = vg.plan(model, graph, budget=3, nodes=[0, 1], candidates=range(12), left=0.5, samples=0)
    assert set(found.nodes) <= set(range(12))
    assert (found.answers, len(found.nodes)) == (2, 3)
    known = graph.clone()
    known.x_var[list(found.nodes)] *= 0.5
    want = vg.predict(model, known, samples=0).total[:2].sum()
    assert found.after == pytest.approx(float(want), rel=1e-6)
    assert 0 < found.taken_away < 0.5
    assert list(found.after_rounds) == [1, 2, 3]


def test_a_plan_stops_where_nothing_more_helps():
    graph, model = instruments(), made(Net)
    graph.x_var[3:] = 0
    found = vg.plan(model, graph, budget=20, samples=0)
    assert set(found.nodes) == {0, 1, 2}
    assert found.after == 0
    text = str(found)
    assert text.startswith("these 3 nodes, measured again, take 100 % of all variance away: ")
    assert "all nodes together: about 100 %" in text
    assert json.loads(json.dumps(found.to_dict()))["taken_away"] == 1


@pytest.mark.parametrize(
    ("options", "message"),
    [({"budget": 0}, "budget=0"), ({"left": 1.0}, "left="), ({"candidates": []}, "no node")],
)
def test_plans_that_make_no_sense(options, message):
    with pytest.raises(OptionError, match=message):
        vg.plan(made(Net), instruments(), **options)


def test_a_plan_needs_noise():
    graph = instruments()
    del graph.x_var
    with pytest.raises(GraphError, match="there is nothing to measure again"):
        vg.plan(made(Net), graph)
