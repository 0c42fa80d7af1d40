"""Both readings of an uncertain link, against slow and literal references."""

import itertools

import numpy as np
import pytest
import torch
import torch_geometric.nn as gnn
from torch import nn

import varigraph as vg
from moments.cases import seeded
from varigraph.errors import ModelError, OptionError
from varigraph.moments import (
    Gaussian,
    LinkProbabilities,
    Propagation,
    StandIn,
    propagating,
    running,
)
from varigraph.moments.neighbours import neighbours_of


def undirected(pairs):
    links = torch.tensor(pairs).T
    return torch.cat([links, links.flip(0)], 1)


def random_graph(nodes, chance, generator):
    """Links both ways, one chance per link, chances between 0.2 and 1."""
    pairs = [p for p in itertools.combinations(range(nodes), 2) if generator.random() < chance]
    prob = torch.from_numpy(generator.uniform(0.2, 1.0, len(pairs)))
    return undirected(pairs), torch.cat([prob, prob])


def propagate(layer, x, edge_index, prob, reading, *args):
    links = LinkProbabilities(edge_index, prob, len(x.mean), reading)
    with torch.no_grad(), running(layer, by_rules=True), propagating(Propagation(links)):
        return layer(StandIn(x), edge_index, *args).value


def theorem_1(combine, aggregate, bias, mean, var, edge_index, prob):
    """The two equations of Theorem 1, neighbour by neighbour and number by number."""
    nodes, outputs = len(mean), len(combine)
    out_mean, out_var = np.zeros((nodes, outputs)), np.zeros((nodes, outputs))
    links = list(zip(*edge_index.tolist(), prob.tolist(), strict=True))
    for u in range(nodes):
        neighbours = [(v, p) for v, target, p in links if target == u]
        count = max(len(neighbours), 1)
        for j in range(outputs):
            for k in range(mean.shape[1]):
                sum_mean = sum(p * float(mean[v, k]) for v, p in neighbours)
                sum_var = sum(p**2 * float(var[v, k]) for v, p in neighbours)
                out_mean[u, j] += combine[j, k] * mean[u, k] + aggregate[j, k] * sum_mean / count
                out_var[u, j] += combine[j, k] ** 2 * var[u, k]
                out_var[u, j] += aggregate[j, k] ** 2 * sum_var / count**2
            out_mean[u, j] += bias[j]
    return out_mean, out_var


@pytest.mark.parametrize("seed", range(5))
def test_weight_reading_is_theorem_1_as_printed(seed):
    generator = np.random.default_rng(seed)
    edge_index, prob = random_graph(9, 0.4, generator)
    mean, var = generator.normal(size=(9, 4)), generator.uniform(0, 2, (9, 4))
    layer = seeded(lambda: gnn.SAGEConv(4, 3)).double()
    x = Gaussian(torch.from_numpy(mean), torch.from_numpy(var))
    got = propagate(layer, x, edge_index, prob, "weight")
    weights = [
        w.detach().numpy() for w in (layer.lin_r.weight, layer.lin_l.weight, layer.lin_l.bias)
    ]
    want_mean, want_var = theorem_1(*weights, mean, var, edge_index, prob)
    assert np.allclose(got.mean, want_mean, rtol=1e-6, atol=1e-9)
    assert np.allclose(got.var, want_var, rtol=1e-6, atol=1e-12)


def test_theorem_1_through_the_whole_network_of_the_paper():
    generator = np.random.default_rng(7)
    edge_index, prob = random_graph(8, 0.5, generator)
    mean, var = generator.normal(size=(8, 5)), generator.uniform(0, 1, (8, 5))
    graph = gnn_data(mean, edge_index)
    model = vg.paper_network(graph).double()
    graph.x_var, graph.edge_prob = torch.from_numpy(var), prob
    pred = vg.predict(model, graph, method="diagonal", links="weight", samples=0, task="regression")
    for conv in (model.conv1, model.conv2):
        weights = [
            w.detach().numpy() for w in (conv.lin_r.weight, conv.lin_l.weight, conv.lin_l.bias)
        ]
        mean, var = theorem_1(*weights, mean, var, edge_index, prob)
    for dense in (m for m in model.modules() if type(m) is nn.Linear):
        weight, bias = dense.weight.detach().numpy(), dense.bias.detach().numpy()
        mean, var = mean @ weight.T + bias, var @ (weight**2).T
    assert np.allclose(pred.mean, mean, rtol=1e-6)
    assert np.allclose(pred.aleatoric, var, rtol=1e-6)


def gnn_data(mean, edge_index):
    from torch_geometric.data import Data

    return Data(x=torch.from_numpy(mean), edge_index=edge_index, y=torch.arange(len(mean)) % 3)


# ---- the Bernoulli reading, by enumeration of all graphs ----


def enumerated(layer, x, edge_index, prob, *args):
    """Moments over all graphs: the dense map of each, its chance, and the law of total variance.

    The map of a graph is the Jacobian of the plain layer with the messages of missing links set to
    zero by hand: divisors and degrees stay those of the observed graph.
    """
    pairs = [tuple(sorted(p)) for p in edge_index.T.tolist()]
    coins = sorted(set(pairs))
    chance = {pair: float(p) for pair, p in zip(pairs, prob, strict=True)}
    first = second = within = 0
    for kept in itertools.product([True, False], repeat=len(coins)):
        weight = np.prod(
            [chance[c] if k else 1 - chance[c] for c, k in zip(coins, kept, strict=True)]
        )
        keep = torch.tensor([kept[coins.index(p)] for p in pairs])
        jac, out = masked_layer(layer, x.mean, edge_index, keep, *args)
        var = (jac.reshape(out.numel(), -1).square() @ x.var.flatten()).view(out.shape)
        first, second, within = (
            first + weight * out,
            second + weight * out**2,
            within + weight * var,
        )
    return first, within + second - first**2


def masked_layer(layer, mean, edge_index, keep, *args):
    def silence(module, inputs, messages):
        added = len(messages) - len(keep)  # a layer's own loops stand behind the links
        return messages * torch.cat([keep, torch.ones(added, dtype=torch.bool)])[:, None]

    handle = layer.register_message_forward_hook(silence)
    try:
        run = lambda t: layer(t, edge_index, *args)  # noqa: E731
        return torch.autograd.functional.jacobian(run, mean), run(mean).detach()
    finally:
        handle.remove()


LAYERS = {
    "sage mean": lambda: gnn.SAGEConv(3, 2),
    "sage sum": lambda: gnn.SAGEConv(3, 2, aggr="sum"),
    "gcn": lambda: gnn.GCNConv(3, 2),
    "graph conv": lambda: gnn.GraphConv(3, 2),
    "graph conv mean": lambda: gnn.GraphConv(3, 2, aggr="mean"),
    "gin": lambda: gnn.GINConv(nn.Sequential(nn.Linear(3, 2)), eps=0.2),
    "sgc": lambda: gnn.SGConv(3, 2, K=1),
    "appnp": lambda: gnn.APPNP(1, 0.2),
    "sage, other flow": lambda: gnn.SAGEConv(3, 2, flow="target_to_source"),
}


@pytest.mark.parametrize("name", LAYERS)
@pytest.mark.parametrize("noisy", [True, False], ids=["noisy", "exact features"])
def test_one_layer_is_exact_over_all_graphs(name, noisy):
    generator = np.random.default_rng(3)
    edge_index, prob = random_graph(5, 0.7, generator)
    x = Gaussian(
        torch.from_numpy(generator.normal(size=(5, 3))),
        torch.from_numpy(generator.uniform(0, 1, (5, 3)) * noisy),
    )
    layer = seeded(LAYERS[name]).double()
    want_mean, want_var = enumerated(layer, x, edge_index, prob)
    got = propagate(layer, x, edge_index, prob, "bernoulli")
    assert torch.allclose(got.mean, want_mean, rtol=1e-9, atol=1e-9)
    assert torch.allclose(got.var, want_var, rtol=1e-9, atol=1e-9)
    assert float(got.var.max()) > 0


def test_links_listed_twice_share_one_coin():
    edge_index = torch.tensor([[0, 0, 1, 2], [1, 1, 0, 1]])
    prob = torch.tensor([0.6, 0.6, 0.6, 0.9]).double()
    layer = seeded(LAYERS["sage mean"]).double()
    x = Gaussian(torch.randn(3, 3, generator=torch.Generator().manual_seed(0)).double(),
                 torch.ones(3, 3).double())  # fmt: skip
    want_mean, want_var = enumerated(layer, x, edge_index, prob)
    got = propagate(layer, x, edge_index, prob, "bernoulli")
    assert torch.allclose(got.mean, want_mean, atol=1e-9)
    assert torch.allclose(got.var, want_var, atol=1e-9)


def test_an_uncertain_self_loop_moves_with_the_node_itself():
    edge_index = torch.tensor([[0, 1, 0], [1, 0, 0]])
    prob = torch.tensor([0.6, 0.6, 0.3]).double()
    layer = seeded(LAYERS["sage mean"]).double()
    x = Gaussian(torch.tensor([[1.0, 2, 3], [0, 1, 2]]).double(), torch.ones(2, 3).double())
    want_mean, want_var = enumerated(layer, x, edge_index, prob)
    got = propagate(layer, x, edge_index, prob, "bernoulli")
    assert torch.allclose(got.mean, want_mean, atol=1e-9)
    assert torch.allclose(got.var, want_var, atol=1e-9)


def test_certain_links_change_nothing():
    edge_index = undirected([(0, 1), (1, 2)])
    x = Gaussian(torch.randn(3, 3).double(), torch.rand(3, 3).double())
    layer = seeded(LAYERS["gcn"]).double()
    certain = propagate(layer, x, edge_index, torch.ones(4).double(), "bernoulli")
    with torch.no_grad(), running(layer, by_rules=True), propagating(Propagation()):
        plain = layer(StandIn(x), edge_index).value
    assert torch.equal(certain.mean, plain.mean)
    assert torch.allclose(certain.var, plain.var, rtol=1e-14)


def test_loops_that_gcn_adds_are_certain():
    edge_index = torch.tensor([[0, 1, 0], [1, 0, 0]])  # the data lists a loop with its own chance
    layer = seeded(LAYERS["gcn"]).double()
    x = Gaussian.certain(torch.tensor([[1.0, 2, 3], [0, 0, 0]]).double())
    got = propagate(layer, x, edge_index, torch.tensor([1.0, 1.0, 0.3]).double(), "bernoulli")
    assert float(got.var.abs().max()) == 0


def test_gin_refuses_an_uncertain_loop():
    layer = seeded(LAYERS["gin"]).double()
    x = Gaussian.certain(torch.ones(2, 3).double())
    with pytest.raises(ModelError, match="uncertain self-loops"):
        propagate(
            layer, x, torch.tensor([[0, 0], [0, 1]]), torch.tensor([0.5, 0.5]).double(), "bernoulli"
        )


def test_max_with_coins_is_near_the_enumeration():
    generator = np.random.default_rng(5)
    edge_index, prob = random_graph(5, 0.6, generator)
    layer = seeded(lambda: gnn.SAGEConv(1, 1, aggr="max", root_weight=False)).double()
    x = Gaussian.certain(torch.from_numpy(generator.normal(size=(5, 1))))
    first = second = 0
    pairs = [tuple(sorted(p)) for p in edge_index.T.tolist()]
    coins = sorted(set(pairs))
    chance = dict(zip(pairs, prob.tolist(), strict=True))
    for kept in itertools.product([True, False], repeat=len(coins)):
        weight = np.prod(
            [chance[c] if k else 1 - chance[c] for c, k in zip(coins, kept, strict=True)]
        )
        keep = torch.tensor([kept[coins.index(p)] for p in pairs])
        out = layer(x.mean, edge_index[:, keep]).detach()
        first, second = first + weight * out, second + weight * out**2
    got = propagate(layer, x, edge_index, prob, "bernoulli")
    spread = (second - first**2).max()
    assert torch.allclose(got.mean, first, atol=0.01 * float(spread.sqrt()))
    assert torch.allclose(got.var, second - first**2, atol=0.01 * float(spread))


def test_a_link_the_data_does_not_know_is_refused():
    links = LinkProbabilities(undirected([(0, 1)]), torch.tensor([0.5, 0.5]), 3)
    with pytest.raises(ModelError, match="made the link 1 -> 2"):
        links.of(torch.tensor([[0, 1], [1, 2]]))
    with pytest.raises(ModelError, match="made the link 0 -> 4"):  # key 0 * 3 + 4 is that of 1 -> 1
        links.of(torch.tensor([[0], [4]]))
    with pytest.raises(ModelError, match="works on 2 nodes"):
        neighbours_of(undirected([(0, 1)]), None, 2, dtype=torch.float32, links=links)


def test_order_and_loops_do_not_matter():
    edge_index = torch.tensor([[2, 0, 1], [0, 1, 2]])
    links = LinkProbabilities(edge_index, torch.tensor([0.2, 0.4, 0.6]), 3)
    found = links.of(torch.tensor([[1, 1, 2, 0], [2, 1, 0, 1]]))
    assert found.tolist() == pytest.approx([0.6, 1.0, 0.2, 0.4])


def test_a_graph_without_links_has_no_chances_to_look_up():
    links = LinkProbabilities(torch.empty(2, 0, dtype=torch.long), torch.empty(0), 2)
    assert links.of(torch.tensor([[0, 1], [0, 1]])).tolist() == [1.0, 1.0]


def test_unknown_reading_is_refused():
    with pytest.raises(OptionError, match="links='coin'"):
        LinkProbabilities(torch.tensor([[0], [1]]), torch.tensor([0.5]), 2, "coin")
