"""One block per node: exact while the nodes that meet in a sum are independent."""

import itertools
import math

import pytest
import torch
import torch_geometric.nn as gnn
from torch import nn
from torch.nn import functional as F
from torch_geometric.data import Data

import varigraph as vg
from prediction.first_order.test_method import Two, masked, runs_of_everything, uncertain
from prediction.networks import made, noisy_ring, ring
from varigraph.errors import TooLargeError

PARTS = ("features", "links", "weights", "interactions")
SOURCES = ("features", "links", "weights")


def covariance(model, graph, **options):
    given = {"method": "covariance", "task": "regression", "links": "bernoulli", **options}
    return vg.predict(model, graph, **given)


class Nodewise(nn.Module):
    """Dense layers at every node, dropout before the last; the links are not looked at."""

    def __init__(self, *sizes, act=None, rate=0.0):
        super().__init__()
        pairs = itertools.pairwise(sizes)
        self.layers = nn.ModuleList([nn.Linear(a, b) for a, b in pairs])
        self.act, self.rate = act, rate

    def forward(self, x, edge_index):
        *hidden, last = self.layers
        for layer in hidden:
            x = layer(x) if self.act is None else self.act(layer(x))
        return last(F.dropout(x, self.rate, self.training))


class Headed(nn.Module):
    """A message-passing layer with a dense head, which needs the block that it is given."""

    def __init__(self, conv):
        super().__init__()
        self.conv, self.head = conv, nn.Linear(5, 3)

    def forward(self, x, edge_index):
        return self.head(self.conv(x, edge_index))


def exact_variance(run, x, var):
    """V[y] = sum J^2 v of a map that is linear in x, from its whole Jacobian."""
    jacobian = torch.func.jacrev(run)(x)
    return (jacobian.detach().square() * var).sum((-1, -2))


def assert_same(got, want):
    assert torch.allclose(got, want, rtol=1e-9, atol=1e-13), (got - want).abs().max()


# ---- features ----

NOISE = {
    "number": torch.tensor(0.3),
    "by node": torch.arange(1, 7)[:, None] / 6,
    "by feature": torch.arange(1, 5) / 4,
    "by node and feature": torch.arange(1, 25).view(6, 4) % 7 / 5,
}
DENSE = {
    "one layer": lambda: Nodewise(4, 3),
    "two layers": lambda: Nodewise(4, 5, 3),
    "four layers": lambda: Nodewise(4, 5, 6, 5, 3),
}


@pytest.mark.parametrize("noise", NOISE)
@pytest.mark.parametrize("name", DENSE)
def test_dense_linear_networks_are_exact(name, noise):
    graph, model = ring(), made(DENSE[name])
    graph.x_var = NOISE[noise].double()
    got = covariance(model, graph, samples=0)
    want = exact_variance(lambda x: model(x, None), graph.x, graph.x_var)
    assert_same(got.total, want)
    assert_same(got.mean, model(graph.x, None).detach())
    assert_same(got.by_source["features"], want)


def test_the_diagonal_method_is_not_exact_for_two_dense_layers():
    """So the blocks are what makes the test above pass."""
    graph, model = noisy_ring(), made(DENSE["two layers"])
    want = exact_variance(lambda x: model(x, None), graph.x, 0.3)
    diagonal = covariance(model, graph, method="diagonal", samples=0).total
    assert not torch.allclose(diagonal, want, rtol=0.1)


def star(nodes=6):
    """Node 0 in the middle, links both ways."""
    graph = ring(nodes)
    there = torch.stack([torch.zeros(nodes - 1, dtype=torch.long), torch.arange(1, nodes)])
    graph.edge_index = torch.cat([there, there.flip(0)], 1)
    graph.x_var = torch.arange(1, nodes + 1)[:, None].double() / nodes
    return graph


ONE_SUM = {
    "sage": lambda: Headed(gnn.SAGEConv(4, 5)),
    "sage sum": lambda: Headed(gnn.SAGEConv(4, 5, aggr="sum")),
    "graph conv": lambda: Headed(gnn.GraphConv(4, 5)),
    "gcn": lambda: Headed(gnn.GCNConv(4, 5)),
    "gin": lambda: Headed(gnn.GINConv(nn.Linear(4, 5), eps=0.3)),
}


@pytest.mark.parametrize("name", ONE_SUM)
def test_one_sum_over_independent_neighbours_is_exact(name):
    graph, model = star(), made(ONE_SUM[name])
    want = exact_variance(lambda x: model(x, graph.edge_index), graph.x, graph.x_var)
    assert_same(covariance(model, graph, samples=0).total, want)


def test_two_sums_along_a_tree_are_exact():
    """Messages only go up: no two messages that meet have a node in common."""
    graph = ring(7)
    graph.edge_index = torch.tensor([[1, 2, 3, 4, 5, 6], [0, 0, 1, 1, 2, 2]])
    graph.x_var = torch.arange(1, 8)[:, None].double() / 7
    layers = [gnn.SAGEConv(a, b, root_weight=False) for a, b in ((4, 5), (5, 3))]
    model = made(lambda: Two(*layers))
    want = exact_variance(lambda x: model(x, graph.edge_index), graph.x, graph.x_var)
    assert_same(covariance(model, graph, samples=0).total, want)


def test_what_neighbours_have_in_common_is_left_out():
    """Two GCN layers on a ring average 3 and 3 nodes: walks meet in 1, 2, 3, 2, 1 ways.

    So the variance is (1 + 4 + 9 + 4 + 1) / 81 of what it would be without; nodes that are taken
    as independent have 3 / 9 * 3 / 9 = 9 / 81 of it.
    """
    graph, model = noisy_ring(), made(lambda: Two(gnn.GCNConv(4, 5), gnn.GCNConv(5, 3)))
    want = exact_variance(lambda x: model(x, graph.edge_index), graph.x, 0.3)
    assert_same(covariance(model, graph, samples=0).total, want * 9 / 19)


def test_classes_that_move_together_stay_together_in_the_softmax():
    graph, model = noisy_ring(), made(DENSE["two layers"])
    got = covariance(model, graph, task="classification", samples=0)
    noise = torch.randn(100_000, 1, 4, generator=torch.Generator().manual_seed(0)).double()
    with torch.no_grad():
        drawn = model(graph.x + 0.3**0.5 * noise, None).softmax(-1)
    assert torch.allclose(got.mean, drawn.mean(0), atol=2e-3)
    # Of a variance from this many draws the standard error is below one per cent.
    assert torch.allclose(got.total, drawn.var(0), rtol=0.05)


# ---- dropout: all masks, one by one ----


def mixed(runs, chances, x, var):
    """Parts of the variance over maps that are linear in x, each with its chance.

    Features: that of the mean map. The maps: the variance of their answers at x.
    """
    chances = torch.as_tensor(chances, dtype=torch.float64)
    assert float(chances.sum()) == pytest.approx(1)
    steps = torch.eye(x.numel()).double().view(-1, *x.shape)
    with torch.no_grad():
        answers = torch.stack([run(x) for run in runs])
        slopes = torch.stack([torch.stack([run(x + s) - run(x) for s in steps]) for run in runs])

    def expected(value):
        return torch.einsum("k,k...->...", chances, value)

    mean = expected(answers)
    by_maps = expected((answers - mean) ** 2)
    features = var * expected(slopes).square().sum(0)
    total = by_maps + var * expected(slopes.square()).sum(0)
    return mean, total, {"features": features, "maps": by_maps}


def masks_of(size, rate):
    """All masks of a given size, scaled, with their chances."""
    for kept in itertools.product([1, 0], repeat=size):
        chance = math.prod(1 - rate if keep else rate for keep in kept)
        yield torch.tensor(kept).double() / (1 - rate), chance


def assert_parts(got, mean, total, features, links, weights):
    assert_same(got.mean, mean)
    assert_same(got.total, total)
    none = torch.zeros_like(total)
    alone = {"features": features, "links": links, "weights": weights}
    alone = {part: none if value is None else value for part, value in alone.items()}
    for part, want in alone.items():
        assert_same(got.by_source[part], want)
    assert_same(got.by_source["interactions"], total - sum(alone.values()))


@pytest.mark.parametrize("var", [0.0, 0.3])
def test_dropout_between_dense_layers_is_exact(var):
    graph, model = ring(), made(lambda: Nodewise(4, 5, 3, rate=0.4))
    graph.x_var = var
    first, second = model.layers
    masks, chances = zip(*masks_of(5, 0.4), strict=True)
    runs = [lambda x, mask=mask: second(first(x) * mask) for mask in masks]
    mean, total, alone = mixed(runs, chances, graph.x, var)
    assert_parts(covariance(model, graph), mean, total, alone["features"], None, alone["maps"])


def test_dropout_before_a_sum_is_exact():
    graph, model = star(4), made(lambda: Two(gnn.SAGEConv(4, 2), gnn.SAGEConv(2, 2), F.relu, 0.4))
    graph.x_var = 0.0
    with torch.no_grad():
        hidden = F.relu(model.first(graph.x, graph.edge_index))
    masks, chances = zip(*masks_of(8, 0.4), strict=True)
    runs = [lambda h, m=mask: model.second(h * m.view(4, 2), graph.edge_index) for mask in masks]
    mean, total, alone = mixed(runs, chances, hidden, 0.0)
    assert_parts(covariance(model, graph), mean, total, None, None, alone["maps"])


def test_sampled_masks_are_near_the_closed_form():
    graph = ring(200)
    graph.x_var = 0.3
    model = made(lambda: Two(gnn.SAGEConv(4, 8), gnn.SAGEConv(8, 3), F.relu, 0.4))
    closed, drawn = (covariance(model, graph, weights=w, samples=400) for w in (None, "sampled"))
    assert not torch.allclose(drawn.epistemic, closed.epistemic, rtol=1e-3)
    # One variance of 400 masks is within 6 %, the sum of 600 of them within half a per cent.
    ratio = drawn.epistemic.sum() / closed.epistemic.sum()
    assert float(ratio) == pytest.approx(1, abs=0.02)
    for part in ("features", "links", "interactions"):
        assert torch.equal(drawn.by_source[part], closed.by_source[part]), part


# ---- coins: all graphs, one by one ----


@pytest.mark.parametrize("var", [0.0, 0.3])
@pytest.mark.parametrize("name", ["sage", "graph conv", "gcn"])
def test_one_sum_over_uncertain_links_is_exact(name, var):
    graph, model = uncertain(star(4), 0.7), made(ONE_SUM[name])
    graph.x_var = var
    coins = itertools.product([1, 0], repeat=3)  # the links of a star, there and back
    kept = [torch.tensor(coin * 2).double() for coin in coins]
    chances = [math.prod(0.7 if keep else 0.3 for keep in k[:3]) for k in kept]
    runs = [
        lambda x, k=keep: masked(model, Data(x=x, edge_index=graph.edge_index), k) for keep in kept
    ]
    mean, total, alone = mixed(runs, chances, graph.x, var)
    got = covariance(model, graph, samples=0)
    assert_parts(got, mean, total, alone["features"], alone["maps"], None)


# ---- blame, memory, options ----


def everything():
    graph = uncertain(noisy_ring(), 0.8)
    return made(lambda: Two(gnn.SAGEConv(4, 8), gnn.SAGEConv(8, 3), F.relu, 0.3)), graph


@pytest.mark.parametrize(("task", "ratio"), [("regression", 0.99), ("classification", 1.05)])
def test_the_total_of_everything_is_that_of_drawn_runs(task, ratio):
    """Noise, coins and masks at once: 0.99 of the true variance of values, 1.05 of classes."""
    model, graph = everything()
    runs = runs_of_everything(model, graph, 0.8)
    runs = runs.softmax(-1) if task == "classification" else runs
    got = covariance(model, graph, task=task)
    assert float(got.total.sum() / runs.var(0).sum()) == pytest.approx(ratio, abs=0.03)


@pytest.mark.parametrize("task", ["regression", "classification"])
def test_each_source_has_its_part_and_what_is_switched_off_is_zero(task):
    model, graph = everything()
    got = covariance(model, graph, task=task)
    for source in SOURCES:
        assert float(got.by_source[source].min()) > 0
        alone = covariance(model, graph, task=task, sources=(source,))
        others = set(PARTS) - {source}
        assert all(not alone.by_source[part].any() for part in others), source
        if task == "regression":
            assert torch.allclose(alone.total, got.by_source[source], rtol=1e-9), source


def test_without_sources_it_is_the_network():
    model, graph = everything()
    plain = Data(x=graph.x, edge_index=graph.edge_index)
    got = covariance(model, plain, task="classification", samples=0)
    assert torch.allclose(got.mean, model(plain.x, plain.edge_index).softmax(-1))
    assert not got.total.any()


def test_nodes_restrict_the_answer():
    model, graph = everything()
    whole, picked = covariance(model, graph), covariance(model, graph, nodes=[4, 1])
    for part in PARTS:
        assert torch.equal(picked.by_source[part], whole.by_source[part][[4, 1]]), part


def test_too_little_memory_is_said_with_a_remedy():
    graph = noisy_ring(nodes=2000)
    model = made(lambda: Two(gnn.SAGEConv(4, 40), gnn.SAGEConv(40, 3), F.relu, 0.3))
    message = "2,000 blocks of 40 x 40 numbers need 83 MiB, more than the memory of 60 MiB"
    with pytest.raises(TooLargeError, match=message) as caught:
        covariance(model, graph, memory="60MiB")
    assert caught.value.remedy == 'memory="83MiB" or more, or method="sampled"'
    assert covariance(model, graph, memory="83MiB").total.min() > 0


class Summed(nn.Module):
    """A sum of each node and its neighbours, dropout, and a dense layer."""

    def __init__(self):
        super().__init__()
        self.sum, self.head = gnn.GINConv(nn.Linear(4, 5)), nn.Linear(5, 3)

    def forward(self, x, edge_index):
        x = F.dropout(self.sum(x, edge_index), 0.4, self.training)
        return self.head(x)


@pytest.mark.parametrize("method", ["covariance", "first-order"])
def test_masks_are_drawn_where_the_rule_does_not_fit_the_links(method):
    """Its rule refuses self-loops in doubt, which the passes under masks do not look at."""
    model, graph = made(Summed), ring()
    graph.edge_index = torch.cat([graph.edge_index, torch.tensor([[0], [0]])], 1)
    graph.edge_prob = torch.full((graph.num_edges,), 0.7).double()
    got = covariance(model, graph, method=method, weights="sampled", samples=4000)
    sums = torch.eye(6).double()
    sums[graph.edge_index[1], graph.edge_index[0]] += 0.7
    hidden = F.linear(sums @ graph.x, model.sum.nn.weight, model.sum.nn.bias)
    want = 0.4 / 0.6 * hidden.square() @ model.head.weight.square().T
    assert torch.allclose(got.by_source["weights"], want, rtol=0.12)
