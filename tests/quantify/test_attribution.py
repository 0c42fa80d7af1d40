"""Blame for one node: exact where the network is linear, the slope at the mean elsewhere."""

import itertools
import json
from functools import partial

import numpy as np
import pytest
import torch
import torch_geometric.nn as gnn
from torch import nn
from torch.nn import functional as F
from torch_geometric.data import Data
from torch_geometric.utils import to_torch_csr_tensor

import varigraph as vg
from prediction.networks import Functional, made, noisy_ring, ring
from varigraph.errors import GraphError, ModelError, OptionError
from varigraph.moments import LinkProbabilities
from varigraph.moments.messages import scaled_messages

#: Links here are coins that silence messages.
attribute = partial(vg.attribute, links="bernoulli")
predict = partial(vg.predict, links="bernoulli")


ALL = 10**6


def uncertain_ring(**kwargs):
    """Noise that differs by node and feature, and a chance for each undirected link."""
    graph = noisy_ring(**kwargs)
    draw = torch.Generator().manual_seed(3)
    graph.x_var = torch.rand(graph.x.shape, generator=draw).to(graph.x)
    chance = torch.linspace(0.5, 0.95, graph.num_nodes).to(graph.x)
    graph.edge_prob = torch.cat([chance, chance])
    return graph


def path():
    """0 - 1 - 2 - 3 with noise-free features, all links uncertain."""
    there = torch.tensor([[0, 1, 2], [1, 2, 3]])
    chance = torch.tensor([0.9, 0.6, 0.8], dtype=torch.float64)
    return Data(
        x=torch.randn(4, 2, generator=torch.Generator().manual_seed(1)).double(),
        edge_index=torch.cat([there, there.flip(0)], 1),
        edge_prob=torch.cat([chance, chance]),
    )


class Linear2(nn.Module):
    """Two layers and no activation: linear in the features."""

    def __init__(self, features=4):
        super().__init__()
        self.first, self.second = gnn.SAGEConv(features, 5), gnn.SAGEConv(5, 3)

    def forward(self, x, edge_index):
        return self.second(self.first(x, edge_index), edge_index)


def added_up(blame):
    return (
        sum(f.variance for f in blame.features) + blame.rest["features"],
        sum(n.variance for n in blame.nodes) + blame.rest["nodes"],
        sum(k.variance for k in blame.links) + blame.rest["links"],
    )


def weighted(model, graph, weight):
    """The answer with given weights of the directed messages."""
    links = LinkProbabilities(graph.edge_index, weight, len(graph.x))
    with scaled_messages(model, links), torch.no_grad():
        return model(graph.x, graph.edge_index)


def directed(graph, link):
    """Which columns of edge_index a link entry is about."""
    source, target = graph.edge_index
    there = (source == link.source) & (target == link.target)
    back = (source == link.target) & (target == link.source)
    return there | back if link.both_ways else there


def by_hand(model, graph, node, number, step=1e-5):
    """Variance by feature and by link: the formula with central differences for slopes."""
    prob = graph.get("edge_prob", torch.ones(graph.num_edges).double())

    def value(x, weight):
        changed = graph.clone()
        changed.x = x
        return float(number(weighted(model, changed, weight)[node]))

    features = {}
    for w, k in itertools.product(*map(range, graph.x.shape)):
        shift = torch.zeros_like(graph.x)
        shift[w, k] = step
        slope = (value(graph.x + shift, prob) - value(graph.x - shift, prob)) / (2 * step)
        features[w, k] = float(graph.x_var[w, k]) * slope**2
    links = {}
    for u, v in {tuple(sorted(e)) for e in graph.edge_index.t().tolist()}:
        both = (graph.edge_index.sort(0).values == torch.tensor([[u], [v]])).all(0)
        shift = step * both.double()
        slope = (value(graph.x, prob + shift) - value(graph.x, prob - shift)) / (2 * step)
        p = float(prob[both][0])
        links[u, v] = p * (1 - p) * slope**2
    return features, links


# ---- linear networks are exact ----


def test_a_linear_network_by_its_dense_matrices():
    graph, model = noisy_ring(), made(Linear2)
    graph.x_var = uncertain_ring().x_var
    size = graph.num_nodes
    average = np.zeros((size, size))
    for source, target in graph.edge_index.t().tolist():
        average[target, source] += 0.5  # everyone on a ring has two neighbours
    (c1, a1), (c2, a2) = (
        (layer.lin_r.weight.detach().numpy(), layer.lin_l.weight.detach().numpy())
        for layer in (model.first, model.second)
    )
    eye, node, output = np.eye(size), 2, 1
    for_second = [(eye, c2), (average, a2)]
    jacobian = sum(
        np.einsum("w,k->wk", (outer @ inner)[node], (late @ early)[output])
        for outer, late in for_second
        for inner, early in [(eye, c1), (average, a1)]
    )
    want = jacobian**2 * graph.x_var.numpy()
    blame = attribute(model, graph, node, output=output, of="logit", top=ALL)
    assert blame.variance == pytest.approx(want.sum(), rel=1e-12)
    assert len(blame.features) == np.count_nonzero(want)
    for entry in blame.features:
        assert entry.variance == pytest.approx(want[entry.node, entry.feature], rel=1e-12)
        assert entry.share == pytest.approx(entry.variance / want.sum(), rel=1e-12)
    for entry in blame.nodes:
        assert entry.variance == pytest.approx(want[entry.node].sum(), rel=1e-12)
    assert blame.links == ()


def test_coins_of_one_layer_are_exact_by_enumeration():
    graph, model = path(), made(lambda: gnn.SAGEConv(2, 3))
    chance = graph.edge_prob[:3].numpy()
    mean, square = 0.0, 0.0
    for coins in itertools.product([0.0, 1.0], repeat=3):
        weight = torch.tensor(coins * 2).double()
        value = float(weighted(model, graph, weight)[1, 2])
        prob = np.prod(np.where(np.array(coins) == 1, chance, 1 - chance))
        mean, square = mean + prob * value, square + prob * value**2
    blame = attribute(model, graph, 1, output=2, task="regression")
    assert blame.variance == pytest.approx(square - mean**2, rel=1e-10)
    assert blame.value == pytest.approx(mean, rel=1e-12)
    assert {(k.source, k.target) for k in blame.links} == {(0, 1), (1, 2)}
    assert blame.features == blame.nodes == ()


@pytest.mark.parametrize("layer", [gnn.SAGEConv, gnn.GCNConv, gnn.GraphConv])
def test_it_agrees_with_the_closed_form_of_one_layer(layer):
    graph, model = uncertain_ring(), made(lambda: layer(4, 3))
    options = {"task": "regression", "samples": 0, "method": "diagonal"}
    pred = predict(model, graph, **options)
    for node, output in itertools.product(range(3), range(3)):
        blame = attribute(model, graph, node, output=output, task="regression")
        for source in ("features", "links"):
            want = pred.by_source[source][node, output].item()
            assert blame.by_source[source] == pytest.approx(want, rel=1e-10)
    alone = graph.clone()
    del alone.edge_prob
    total = predict(model, alone, **options).total
    blame = attribute(model, alone, 4, output=0, task="regression")
    assert blame.variance == pytest.approx(total[4, 0].item(), rel=1e-12)


# ---- the slope at the mean ----


def in_proportion(causes, found, key):
    """Variances of listed causes and the wanted ones, each as shares of their own sums."""
    whole, wanted = sum(cause.variance for cause in causes), sum(found.values())
    got = {key(cause): cause.variance / whole for cause in causes}
    return got, {place: part / wanted for place, part in found.items() if part > 1e-12 * wanted}


@pytest.mark.parametrize(
    "build",
    [
        Functional,
        lambda: gnn.GAT(4, 6, 2, 3, heads=2),
        lambda: gnn.GIN(4, 6, 2, 3, act="tanh"),
    ],
    ids=["sage-gcn", "gat", "gin"],
)
def test_what_is_drawn_is_divided_by_finite_differences(build):
    graph, model = uncertain_ring(), made(build)
    features, links = by_hand(model, graph, 1, lambda row: row.softmax(-1)[2])
    blame = attribute(model, graph, 1, output=2, method="sampled", samples=40, top=ALL)
    got, want = in_proportion(blame.features, features, lambda f: (f.node, f.feature))
    assert got == pytest.approx(want, rel=1e-5)
    got, want = in_proportion(blame.links, links, lambda k: (k.source, k.target))
    assert got == pytest.approx(want, rel=1e-5)


@pytest.mark.parametrize("of", ["probability", "logit"])
@pytest.mark.parametrize("build", [Functional, lambda: gnn.GIN(4, 6, 2, 3, act="tanh")])
def test_small_noise_is_divided_by_finite_differences(build, of):
    """In closed form slopes are averaged over the noise: little of it, and they are derivatives."""
    graph, model, output = uncertain_ring(), made(build), 2
    del graph.edge_prob
    graph.x_var = 1e-8 * graph.x_var
    number = {"logit": lambda row: row[output], "probability": lambda row: row.softmax(-1)[output]}
    features, _ = by_hand(model, graph, 1, number[of])
    blame = attribute(model, graph, 1, output=output, of=of, samples=0, top=ALL)
    assert blame.method.startswith("first-order")
    got, want = in_proportion(blame.features, features, lambda f: (f.node, f.feature))
    assert got == pytest.approx(want, rel=1e-3, abs=1e-9)


def alone(model, graph, number):
    """What each coin causes alone, p (1 - p) (E[y | 1] - E[y | 0])^2, from all outcomes."""
    count = graph.num_edges // 2
    chance, found = graph.edge_prob[:count].numpy(), {}
    coins = np.array(list(itertools.product([0.0, 1.0], repeat=count)))
    prob = np.prod(np.where(coins == 1, chance, 1 - chance), 1)
    weights = torch.tensor(np.concatenate([coins, coins], 1))
    y = np.array([float(number(weighted(model, graph, weight))) for weight in weights])
    for coin in range(count):
        there = coins[:, coin] == 1
        means = [(prob * y)[side].sum() / prob[side].sum() for side in (there, ~there)]
        ends = tuple(graph.edge_index[:, coin].tolist())
        found[ends] = chance[coin] * (1 - chance[coin]) * (means[0] - means[1]) ** 2
    return found


def test_both_directions_share_one_coin():
    """A linear network of two layers, where a walk there and back meets its coin twice."""
    graph, model = path(), made(lambda: Linear2(features=2))
    want = alone(model, graph, lambda out: out[1, 0])
    blame = attribute(model, graph, 1, of="logit", output=0)
    got, want = in_proportion(blame.links, want, lambda k: (k.source, k.target))
    assert got == pytest.approx(want, rel=1e-6)
    assert all(link.both_ways for link in blame.links)


def test_links_are_divided_by_what_each_coin_causes_alone():
    graph, model = uncertain_ring(), made(lambda: gnn.GraphSAGE(4, 6, 2, 3, act="tanh"))
    del graph.x_var
    graph.edge_index[:, [5, 11]] = graph.edge_index[:, [5, 11]].flip(0)  # 0 - 5 as 0 -> 5
    want = alone(model, graph, lambda out: out[1].softmax(-1)[2])
    blame = attribute(model, graph, 1, output=2)
    got, want = in_proportion(blame.links, want, lambda k: (k.source, k.target))
    for ends, share in want.items():
        assert got.get(ends, 0) == pytest.approx(share, abs=0.05)


def test_features_are_divided_by_what_each_causes_alone():
    """Cov(y, x)^2 / V[x] of each feature by plain draws, under noise that bends."""
    graph, model, draws = uncertain_ring(), made(lambda: gnn.GCN(4, 6, 2, 3, act="tanh")), 20_000
    del graph.edge_prob
    z = torch.randn(draws, 6, 4, generator=torch.Generator().manual_seed(0)).double()
    x = (graph.x + graph.x_var.sqrt() * z).flatten(0, 1)
    many = torch.cat([graph.edge_index + 6 * number for number in range(draws)], 1)
    with torch.no_grad():
        y = model(x, many).softmax(-1).view(draws, 6, 3)[:, 1, 2]
    effects = ((y - y.mean())[:, None, None] * z).mean(0).square()
    effects = (effects - y.var() / draws).clamp_min(0)  # what draws make of nothing
    blame = attribute(model, graph, 1, output=2, samples=0, top=ALL)
    for entry in blame.features:
        share = entry.variance / blame.by_source["features"]
        wanted = float(effects[entry.node, entry.feature] / effects.sum())
        assert share == pytest.approx(wanted, abs=0.02)


def test_directions_that_disagree_have_a_coin_each():
    graph, model = path(), made(lambda: Linear2(features=2))
    graph.edge_prob[4] = 0.5  # 2 -> 1, where 1 -> 2 has 0.6
    blame = attribute(model, graph, 1, of="logit", output=0)
    links = {(k.source, k.target): k for k in blame.links}
    assert not links[1, 2].both_ways
    assert not links[2, 1].both_ways
    assert links[0, 1].both_ways
    assert (links[1, 2].probability, links[2, 1].probability) == (0.6, 0.5)
    assert "link 2 -> 1" in str(blame)


def test_repeated_listings_share_their_coin():
    graph, model = path(), made(lambda: gnn.GraphConv(2, 3))
    options = {"of": "logit", "output": 0, "method": "first-order"}
    once = attribute(model, graph, 1, **options)
    twice = graph.clone()
    twice.edge_index = torch.cat([graph.edge_index, graph.edge_index[:, :1]], 1)  # 0 -> 1 again
    twice.edge_prob = torch.cat([graph.edge_prob, graph.edge_prob[:1]])
    blame = attribute(model, twice, 1, **options)
    first, again = (next(k.variance for k in b.links if k.source == 0) for b in (once, blame))
    assert again == pytest.approx(4 * first)  # one coin that moves two messages


def test_a_link_in_one_direction_is_printed_as_one():
    graph = path()
    graph.edge_index, graph.edge_prob = graph.edge_index[:, :3], graph.edge_prob[:3]
    blame = attribute(made(lambda: gnn.SAGEConv(2, 3)), graph, 1)
    assert [(k.source, k.target, k.both_ways) for k in blame.links] == [(0, 1, False)]


def test_links_read_as_weights_cause_nothing():
    graph, model = uncertain_ring(), made(Functional)
    blame = attribute(model, graph, 0, links="weight")
    assert blame.links == ()
    assert blame.by_source["links"] == 0
    coins = attribute(model, graph, 0, method="first-order")
    assert coins.by_source["links"] > 0


# ---- scales and outputs ----


class Ending(nn.Module):
    def __init__(self, last):
        super().__init__()
        self.conv, self.last = gnn.GCNConv(4, 3), last

    def forward(self, x, edge_index):
        return self.last(self.conv(x, edge_index))


@pytest.mark.parametrize("of", ["probability", "logit"])
@pytest.mark.parametrize(
    "last",
    [nn.Softmax(-1), nn.LogSoftmax(-1), lambda x: F.log_softmax(x, dim=1), lambda x: x.softmax(1)],
    ids=["Softmax", "LogSoftmax", "log_softmax", "softmax"],
)
def test_a_softmax_at_the_end_changes_nothing(last, of):
    graph, model = uncertain_ring(), made(lambda: Ending(nn.Identity()))
    want = attribute(model, graph, 3, of=of)
    got = attribute(made(lambda: Ending(last)), graph, 3, of=of)
    assert got.variance == pytest.approx(want.variance, rel=1e-10)
    assert (got.output, got.of) == (want.output, of)
    assert got.value == pytest.approx(want.value)


def test_the_predicted_class_is_the_default():
    graph, model = uncertain_ring(), made(Functional)
    mean = predict(model, graph).mean
    for node in range(6):
        blame = attribute(model, graph, node)
        assert blame.output == int(mean[node].argmax())
        assert blame.value == pytest.approx(float(mean[node].max()))


def test_sure_answers_keep_their_digits_in_float32():
    graph, model = uncertain_ring(), made(lambda: gnn.GCNConv(4, 3))
    with torch.no_grad():
        model.bias.copy_(torch.tensor([25.0, 0.0, 0.0]))  # a probability of 1 in float32
    want = attribute(model, graph, 0)
    got = attribute(model.float(), uncertain_ring(dtype=torch.float32), 0)
    assert 0 < want.variance < 1e-16
    assert got.variance == pytest.approx(want.variance, rel=1e-4)


@pytest.mark.parametrize("squeezed", [True, False])
def test_regression_of_one_number(squeezed):
    graph, model = uncertain_ring(), made(lambda: gnn.GCNConv(4, 1))
    forward = (lambda m, x, d: m(x, d.edge_index)[:, 0]) if squeezed else None
    blame = attribute(model, graph, 2, task="regression", forward=forward)
    assert (blame.output, blame.of) == (0, "value")
    assert blame.variance > 0


# ---- the order of things ----


def test_permuting_the_nodes_permutes_the_result():
    graph, model = uncertain_ring(), made(Functional)
    place = torch.tensor([3, 0, 5, 1, 4, 2])  # new number of each node
    moved = graph.clone()
    moved.x, moved.x_var = torch.empty_like(graph.x), torch.empty_like(graph.x)
    moved.x[place], moved.x_var[place] = graph.x, graph.x_var
    shuffle = torch.randperm(12, generator=torch.Generator().manual_seed(0))
    moved.edge_index, moved.edge_prob = (
        place[graph.edge_index][:, shuffle],
        graph.edge_prob[shuffle],
    )
    options = {"top": ALL, "method": "first-order"}
    here = attribute(model, graph, 2, **options)
    there = attribute(model, moved, int(place[2]), **options)
    assert there.variance == pytest.approx(here.variance, rel=1e-10)
    number = place.tolist()
    want = {(number[f.node], f.feature): f.variance for f in here.features}
    assert {(f.node, f.feature): f.variance for f in there.features} == pytest.approx(want)
    want = {frozenset((number[k.source], number[k.target])): k.variance for k in here.links}
    got = {frozenset((k.source, k.target)): k.variance for k in there.links}
    assert got == pytest.approx(want)


@pytest.mark.parametrize("top", [0, 1, 3, 20, ALL])
def test_largest_first_and_everything_adds_up(top):
    blame = attribute(made(Functional), uncertain_ring(), 0, top=top, method="first-order")
    for causes in (blame.features, blame.nodes, blame.links):
        parts = [cause.variance for cause in causes]
        assert parts == sorted(parts, reverse=True)
        assert len(parts) <= top
        assert all(part > 0 for part in parts)
    features, nodes, links = added_up(blame)
    assert features == pytest.approx(blame.by_source["features"], rel=1e-12)
    assert nodes == pytest.approx(blame.by_source["features"], rel=1e-12)
    assert links == pytest.approx(blame.by_source["links"], rel=1e-12)
    assert sum(blame.by_source.values()) == pytest.approx(blame.variance, rel=1e-12)
    assert blame.by_source["weights"] > 0
    assert blame.by_source["interactions"] > 0
    if top == ALL:
        assert blame.rest == {"features": 0, "nodes": 0, "links": 0}
        shares = sum(cause.share for cause in (*blame.features, *blame.links))
        others = blame.by_source["weights"] + blame.by_source["interactions"]
        assert shares == pytest.approx(1 - others / blame.variance)


def test_only_the_neighbourhood_is_to_blame():
    graph = path()
    graph.x_var = 0.1
    blame = attribute(made(lambda: gnn.SAGEConv(2, 3)), graph, 0)
    assert {n.node for n in blame.nodes} == {0, 1}
    assert [(k.source, k.target) for k in blame.links] == [(0, 1)]


def test_features_without_noise_are_not_to_blame():
    graph = noisy_ring()
    graph.x_var = torch.tensor([0.0, 0.2, 0.0, 0.0]).double()
    blame = attribute(made(Functional), graph, 0)
    assert {f.feature for f in blame.features} == {1}


# ---- what is printed ----


def one_culprit():
    """Node 1 hears of feature 1 of node 0 above all, over a doubtful link."""
    graph, model = path(), made(lambda: gnn.SAGEConv(2, 2, bias=False))
    graph.x_var = torch.tensor([[1e-3, 0.9], [1e-3, 1e-3], [1e-3, 1e-3], [0.0, 0.0]]).double()
    with torch.no_grad():
        model.lin_l.weight.copy_(torch.tensor([[1.0], [0.0]]).expand(2, 2))
        model.lin_r.weight.copy_(torch.tensor([[0.5], [0.0]]).expand(2, 2))
    return model, graph


def test_the_text_gives_advice():
    blame = attribute(*one_culprit(), 1, of="logit", output=0)
    text = str(blame)
    share = f"{100 * blame.features[0].share:.0f} %"
    assert f"measure again: feature 1 of node 0 ({share} of the variance)" in text
    assert f"verify: link 1 - 2 ({100 * blame.links[0].share:.0f} %" in text
    assert text.startswith("node 1, logit of class 0: ")
    assert all(len(line) < 100 for line in text.splitlines())


def test_the_text_uses_the_names_of_the_data():
    model, graph = one_culprit()
    graph.node_names = ["Ada", "Bo", "Cy", "Di"]
    graph.feature_names = ["age", "income"]
    graph.class_names = ["no", "yes"]
    text = str(attribute(model, graph, 1, output=1))
    assert "node Bo, probability of class yes" in text
    assert "feature income of node Ada" in text
    assert "link Bo - Cy" in text


def test_a_node_is_named_where_no_feature_of_it_stands_out():
    graph = path()
    graph.x, graph.x_var = torch.ones(4, 50).double(), 0.1
    del graph.edge_prob
    model = made(lambda: gnn.SAGEConv(50, 2))
    with torch.no_grad():
        model.lin_r.weight.fill_(1.0)
    text = str(attribute(model, graph, 1, of="logit", output=0))
    assert "measure again: all of node 1 (" in text
    assert "all others" in text
    assert "verify" not in text


def test_the_text_says_so_where_nothing_is_to_blame():
    graph = path()
    graph.x_var = torch.tensor([[0.1], [0.0], [0.0], [0.0]]).double()
    del graph.edge_prob
    blame = attribute(made(lambda: gnn.SAGEConv(2, 3)), graph, 3)  # two hops too far
    assert blame.variance == 0
    assert "nothing makes this answer uncertain" in str(blame)


def test_the_dict_is_ready_for_json():
    blame = attribute(*one_culprit(), 1)
    kept = json.loads(json.dumps(blame.to_dict()))
    assert kept["variance"] == blame.variance
    assert kept["features"][0]["feature"] == 1
    assert kept["links"][0].keys() == vars(blame.links[0]).keys()
    assert set(kept["rest"]) == {"features", "nodes", "links"}


# ---- nothing is left behind ----


def test_the_model_the_data_and_the_random_state_are_as_before():
    graph = uncertain_ring()
    model = made(lambda: gnn.GraphSAGE(4, 8, 2, 3, dropout=0.3, norm="batch_norm"))
    model.train()
    model.convs[0].eval()
    model.convs[1].lin_l.weight.requires_grad_(False)
    modes = [m.training for m in model.modules()]
    state = {name: value.clone() for name, value in model.state_dict().items()}
    flags = [p.requires_grad for p in model.parameters()]
    features, random_before = graph.x.clone(), torch.get_rng_state()
    with torch.no_grad():  # a caller's choice that must not matter
        blame = attribute(model, graph, 0)
    assert blame.variance == attribute(model.eval(), graph, 0).variance
    model.train()
    model.convs[0].eval()
    assert [m.training for m in model.modules()] == modes
    assert all(torch.equal(value, state[name]) for name, value in model.state_dict().items())
    assert [p.requires_grad for p in model.parameters()] == flags
    assert all(p.grad is None for p in model.parameters())
    assert torch.equal(torch.get_rng_state(), random_before)
    assert torch.equal(graph.x, features)
    assert not graph.x.requires_grad
    assert not any(m._message_forward_hooks for m in model.convs)


def test_training_flags_come_back_after_an_error_too():
    model = made(Functional).train()
    with pytest.raises(ModelError):
        attribute(model, noisy_ring(), 0, forward=lambda m, x, data: "nothing")
    assert all(m.training for m in model.modules())


def test_the_model_may_work_in_place_on_its_input():
    graph, model = uncertain_ring(), made(Functional)
    want = attribute(model, graph, 0, forward=lambda m, x, d: m(x.relu(), d.edge_index))
    got = attribute(model, graph, 0, forward=lambda m, x, d: m(x.relu_(), d.edge_index))
    assert got == want


@pytest.mark.parametrize("layer", [gnn.GCNConv, gnn.SGConv])
def test_caches_of_layers_are_left_alone(layer):
    graph, model = noisy_ring(), made(lambda: layer(4, 3, cached=True))
    fresh = attribute(model, graph, 0)
    assert not any(v is not None for k, v in vars(model).items() if k.startswith("_cached"))
    other = ring()
    model(other.x * 2, other.edge_index)  # fills the cache
    kept = {k: v for k, v in vars(model).items() if k.startswith("_cached")}
    assert attribute(model, graph, 0) == fresh
    assert all(vars(model)[k] is v for k, v in kept.items())


@pytest.mark.filterwarnings("ignore:Sparse")
def test_a_sparse_adjacency_will_do_for_features():
    graph, model = noisy_ring(), made(lambda: gnn.SAGEConv(4, 3))
    want = attribute(model, graph, 0)
    graph.adj_t = to_torch_csr_tensor(graph.edge_index.flip(0), size=6).double()
    graph.edge_index = None
    assert attribute(model, graph, 0).variance == pytest.approx(want.variance)


def test_inference_mode_of_the_caller_does_not_matter():
    graph, model = uncertain_ring(), made(Functional)
    with torch.inference_mode():
        inside = attribute(model, graph, 0)
    assert inside == attribute(model, graph, 0)


# ---- errors ----


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"node": 6}, "node=6 is not from 0 to 5"),
        ({"node": -1}, "node=-1 is not from 0 to 5"),
        ({"node": 1.5}, "node=1.5 is not a whole number"),
        ({"output": 3}, "output=3 is not from 0 to 2"),
        ({"task": "ranking"}, "task='ranking'"),
        ({"of": "value"}, "of='value'"),
        ({"of": "logit", "task": "regression"}, "of='logit'"),
        ({"task": "regression"}, "3 outputs per node"),
        ({"top": -1}, "top=-1"),
        ({"links": "maybe"}, "links='maybe'"),
    ],
)
def test_options_that_make_no_sense(options, message):
    with pytest.raises(OptionError, match=message):
        attribute(made(Functional), uncertain_ring(), **{"node": 0, **options})


@pytest.mark.parametrize("sure", ["nothing", "zero", "weights"])
def test_data_without_doubt_is_refused(sure):
    graph = ring()
    if sure == "zero":
        graph.x_var, graph.edge_prob = 0.0, torch.ones(12).double()
    if sure == "weights":
        graph.edge_prob = torch.full((12,), 0.5).double()
    with pytest.raises(GraphError, match="nothing in the data is uncertain"):
        attribute(made(Functional), graph, 0, links="weight", samples=0)
    with pytest.raises(GraphError, match="nothing in the data is uncertain"):
        attribute(made(lambda: gnn.GCNConv(4, 3)), graph, links="weight")  # no dropout either
    blame = attribute(made(Functional), graph, 0, links="weight")
    assert blame.by_source["weights"] == blame.variance > 0
    assert "weights: train on more nodes like it (100 % of the variance)" in str(blame)


@pytest.mark.parametrize("field", ["node_names", "feature_names", "class_names"])
def test_names_must_be_complete(field):
    graph = noisy_ring()
    graph[field] = ["one"]
    with pytest.raises(GraphError, match=f"{field} has 1 entries"):
        attribute(made(Functional), graph, 0)


@pytest.mark.parametrize(
    ("forward", "message"),
    [
        (lambda m, x, d: m(x, d.edge_index).mean(0), "not one value per class for each node"),
        (lambda m, x, d: (m(x, d.edge_index), x), "a tuple"),
        (lambda m, x, d: m(x, d.edge_index)[:, 0], "one value per class"),
        (lambda m, x, d: m(x, d.edge_index) / 0, "not a finite number"),
        (lambda m, x, d: m(x, d.edge_index).detach(), "cannot be differentiated"),
        (lambda m, x, d: m(d.x, d.edge_index), "does not depend on the x"),
        (lambda m, x, d: m(x, d.edge_index) + torch.rand(1), "draws random numbers"),
        (lambda m, x, d: m(x, d.edge_index) + (x - x).sqrt().sum(), "by a feature of node 0"),
    ],
)
def test_models_that_cannot_be_followed(forward, message):
    before = torch.get_rng_state()
    with pytest.raises(ModelError, match=message):
        attribute(made(Functional), noisy_ring(), 0, forward=forward, method="sampled", samples=4)
    assert torch.equal(torch.get_rng_state(), before)


def test_a_softmax_is_no_regression():
    with pytest.raises(ModelError, match="ends in a softmax"):
        attribute(made(lambda: Ending(nn.Softmax(-1))), noisy_ring(), 0, task="regression")
