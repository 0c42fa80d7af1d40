"""Links that are removed, in closed form, against every graph that may be left.

The truth is the unmodified network on each of the graphs without some columns of ``edge_index``.
"""

import itertools

import pytest
import torch
import torch_geometric.nn as gnn
from torch import nn
from torch.nn import functional as F
from torch_geometric.data import Data
from torch_geometric.utils import degree

import varigraph as vg
from varigraph.errors import MissingRuleError

LAYERS = {
    "sage": gnn.SAGEConv,
    "mean": lambda *size: gnn.GraphConv(*size, aggr="mean"),
    "sum": gnn.GraphConv,
    "gin": lambda *size: gnn.GINConv(nn.Linear(*size)),
    "gcn": gnn.GCNConv,
}


class Layers(nn.Module):
    def __init__(self, layer, sizes, activation=None):
        super().__init__()
        self.layers = nn.ModuleList(layer(*size) for size in itertools.pairwise(sizes))
        self.activation = activation

    def forward(self, x, edge_index):
        for layer in self.layers[:-1]:
            x = layer(x, edge_index)
            x = x if self.activation is None else self.activation(x)
        return self.layers[-1](x, edge_index)


def network(layer, depth=1, activation=None, seed=0):
    torch.manual_seed(seed)
    return Layers(layer, [4, *[5] * (depth - 1), 3], activation).double().eval()


def graph(seed, low=0.3, high=1.0, nodes=6, *, one_way=False):
    """A random graph, with a chance for every link that both directions share."""
    generator = torch.Generator().manual_seed(seed)
    pairs = torch.tensor(list(itertools.combinations(range(nodes), 2))).T
    pairs = pairs[:, torch.rand(pairs.shape[1], generator=generator) < 0.5]
    prob = low + (high - low) * torch.rand(pairs.shape[1], generator=generator).double()
    x = torch.randn(nodes, 4, generator=generator).double() + 0.5
    if one_way:
        return Data(x=x, edge_index=pairs, edge_prob=prob)
    both = torch.cat([pairs, pairs.flip(0)], 1)
    return Data(x=x, edge_index=both, edge_prob=torch.cat([prob, prob]))


@torch.no_grad()
def truth(model, data, one_way=False, **given):
    """Mean and variance over every graph that may be left."""
    coins = data.num_edges if one_way else data.num_edges // 2
    prob = data.edge_prob[:coins]
    first = second = 0
    for shown in itertools.product([False, True], repeat=coins):
        there = torch.tensor(shown)
        chance = torch.where(there, prob, 1 - prob).prod()
        keep = there if one_way else torch.cat([there, there])
        rest = {name: weight[keep] for name, weight in given.items()}
        out = model(data.x, data.edge_index[:, keep], **rest)
        first, second = first + chance * out, second + chance * out**2
    return first, second - first**2


def predicted(model, data, **options):
    return vg.predict(
        model, data, method="first-order", links="removed", task="regression", samples=0, **options
    )


def close(a, b, rtol=1e-5):
    assert torch.allclose(a, b, rtol=rtol, atol=1e-7), (a / b).aminmax()


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("layer", ["sage", "mean", "sum", "gin"])
def test_one_layer_is_exact(layer, seed):
    model, data = network(LAYERS[layer], seed=seed), graph(seed)
    mean, variance = truth(model, data)
    found = predicted(model, data)
    close(found.mean, mean)
    close(found.total, variance)
    close(found.by_source["links"], found.total)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("layer", ["sum", "gin"])
def test_two_sums_in_a_row_are_exact(layer, seed):
    """Products of two different coins included: they are what was missing."""
    model, data = network(LAYERS[layer], depth=2, seed=seed), graph(seed)
    mean, variance = truth(model, data)
    found = predicted(model, data)
    close(found.mean, mean)
    close(found.total, variance)


@pytest.mark.parametrize(("low", "high", "off"), [(0.8, 0.8, 0.01), (0.3, 1.0, 0.02)])
@pytest.mark.parametrize("seed", range(3))
def test_one_gcn_layer(seed, low, high, off):
    """The mean is exact, the variance nearly so.

    Nodes of a triangle share a coin between their degrees; and what a coin moves of the messages
    that a node sends is averaged over them, which is exact where their chances are equal.
    """
    model, data = network(gnn.GCNConv, seed=seed), graph(seed, low, high)
    mean, variance = truth(model, data)
    found = predicted(model, data)
    close(found.mean, mean)
    close(found.total, variance, rtol=off)


@pytest.mark.parametrize(
    ("layer", "chance", "off"),
    [("sage", 0.8, 0.06), ("sage", 0.95, 0.02), ("gcn", 0.8, 0.1), ("gcn", 0.95, 0.05)],
)
def test_two_layers_that_share_divisors(layer, chance, off):
    """Two links in doubt that meet a divisor and each other are of second order in 1 - p."""
    ratios, sums = [], []
    for seed in range(4):
        model, data = network(LAYERS[layer], depth=2, seed=seed), graph(seed, chance, chance)
        mean, variance = truth(model, data)
        found = predicted(model, data)
        if layer == "sage":
            close(found.mean, mean)
        seen = variance > 1e-9
        ratios.append((found.total / variance)[seen])
        sums.append(torch.stack([found.total.sum(), variance.sum()]))
    above, below = torch.stack(sums).sum(0)
    assert float(torch.cat(ratios).median()) == pytest.approx(1, abs=off)
    assert float(above / below) == pytest.approx(1, abs=off)


@pytest.mark.parametrize("layer", ["sage", "gcn"])
def test_trained_networks_on_cora(layer):
    """Against the network itself on 500 drawn graphs: about 0.5 % of the median is chance."""
    cora = vg.load("cora")
    data = Data(x=cora.x[:, :200], edge_index=cora.edge_index)
    torch.manual_seed(0)
    model = Layers(LAYERS[layer], [200, 16, 7], torch.relu)
    optimiser = torch.optim.Adam(model.parameters(), 0.02)
    for _ in range(40):
        optimiser.zero_grad()
        out = model(data.x, data.edge_index)[cora.train_mask]
        nn.functional.cross_entropy(out, cora.y[cora.train_mask]).backward()
        optimiser.step()
    nodes = cora.test_mask.nonzero().ravel()[:200]
    low, high = data.edge_index.sort(0).values
    _, coin = torch.unique(low * cora.num_nodes + high, return_inverse=True)
    drawn = []
    with torch.no_grad():
        for _ in range(500):
            there = (torch.rand(int(coin.max()) + 1) < 0.8)[coin]
            drawn.append(model(data.x, data.edge_index[:, there])[nodes])
    variance = torch.stack(drawn).var(0)
    data.edge_prob = torch.full((data.num_edges,), 0.8)
    found = predicted(model, data, nodes=nodes).total
    assert float((found / variance).median()) == pytest.approx(1, abs=0.05)
    assert float(found.sum() / variance.sum()) == pytest.approx(1, abs=0.07)


def test_weights_of_links_are_not_part_of_a_mean_s_divisor():
    class Weighted(nn.Module):
        def __init__(self):
            super().__init__()
            self.conv = gnn.GraphConv(4, 3, aggr="mean")

        def forward(self, x, edge_index, edge_weight=None):
            return self.conv(x, edge_index, edge_weight)

    torch.manual_seed(0)
    model, data = Weighted().double(), graph(0)
    data.edge_weight = torch.rand(data.num_edges).double() + 0.5
    mean, variance = truth(model, data, edge_weight=data.edge_weight)
    found = predicted(model, data, forward=lambda m, x, d: m(x, d.edge_index, d.edge_weight))
    close(found.mean, mean)
    close(found.total, variance)


@pytest.mark.parametrize("layer", ["sage", "gcn"])
def test_links_that_go_one_way(layer):
    model, data = network(LAYERS[layer], seed=1), graph(1, one_way=True)
    mean, variance = truth(model, data, one_way=True)
    found = predicted(model, data)
    close(found.mean, mean)
    assert float(found.total.sum() / variance.sum()) == pytest.approx(1, abs=0.02)


def test_a_link_listed_twice_counts_twice():
    model, data = network(gnn.SAGEConv, seed=2), graph(2)
    half = data.num_edges // 2
    mean_twice, variance_twice = truth(model, data)
    repeated = data.clone()
    repeated.edge_index = torch.cat([data.edge_index, data.edge_index[:, [0, half]]], 1)
    repeated.edge_prob = torch.cat([data.edge_prob, data.edge_prob[[0, half]]])
    found = predicted(model, repeated)
    coins = half
    first = second = 0
    with torch.no_grad():
        for shown in itertools.product([False, True], repeat=coins):
            there = torch.tensor(shown)
            chance = torch.where(there, data.edge_prob[:half], 1 - data.edge_prob[:half]).prod()
            keep = torch.cat([there, there, there[:1], there[:1]])
            out = model(data.x, repeated.edge_index[:, keep])
            first, second = first + chance * out, second + chance * out**2
    close(found.mean, first)
    close(found.total, second - first**2)
    assert not torch.allclose(first, mean_twice)
    assert not torch.allclose(second - first**2, variance_twice)


def test_without_doubt_it_is_the_network_itself():
    for layer in LAYERS.values():
        model, data = network(layer, depth=2), graph(0, 1.0, 1.0)
        found = predicted(model, data)
        with torch.no_grad():
            close(found.mean, model(data.x, data.edge_index))
        assert not found.total.any()


@pytest.mark.parametrize("layer", ["sage", "gcn"])
def test_some_nodes_are_answered_as_all_are(layer):
    model, data = network(LAYERS[layer], 2, torch.relu), graph(3)
    whole, some = predicted(model, data), predicted(model, data, nodes=[4, 1])
    close(some.total, whole.total[[4, 1]])
    close(some.mean, whole.mean[[4, 1]])


@pytest.mark.parametrize("layer", ["sage", "gcn"])
def test_noise_in_features_beside_links_that_are_removed(layer):
    """Brute force over every graph, each with the exact variance of a linear network."""
    model, data = network(LAYERS[layer], seed=4), graph(4)
    noise = 0.3
    half = data.num_edges // 2
    first = second = 0
    for shown in itertools.product([False, True], repeat=half):
        there = torch.tensor(shown)
        chance = torch.where(there, data.edge_prob[:half], 1 - data.edge_prob[:half]).prod()
        keep = torch.cat([there, there])
        jacobian = torch.autograd.functional.jacobian(
            lambda x, keep=keep: model(x, data.edge_index[:, keep]), data.x
        )
        out = model(data.x, data.edge_index[:, keep]).detach()
        spread = noise * jacobian.square().sum((2, 3))
        first, second = first + chance * out, second + chance * (out**2 + spread)
    data.x_var = torch.tensor(noise)
    found = predicted(model, data)
    close(found.mean, first)
    assert float(found.total.sum() / (second - first**2).sum()) == pytest.approx(1, abs=0.02)


@pytest.mark.parametrize("method", ["covariance", "diagonal"])
@pytest.mark.parametrize("layer", ["sage", "sum"])
def test_other_closed_forms_have_one_layer_right(method, layer):
    model, data = network(LAYERS[layer], seed=5), graph(5)
    mean, variance = truth(model, data)
    found = vg.predict(model, data, method=method, links="removed", task="regression", samples=0)
    close(found.mean, mean)
    close(found.total, variance)


def test_a_node_without_any_degree_is_refused():
    layer = lambda *size: gnn.GCNConv(*size, add_self_loops=False)  # noqa: E731
    model, data = network(layer), graph(0, one_way=True)
    with pytest.raises(MissingRuleError, match="left without a degree"):
        predicted(model, data)


def test_a_node_added_to_a_mean_is_followed_as_written():
    model, data = network(lambda *size: gnn.GINConv(nn.Linear(*size), aggr="mean")), graph(0)
    (mean, variance), found = truth(model, data), predicted(model, data)
    close(found.mean, mean)
    close(found.total, variance)
    assert found.as_written == ("GINConv",)


class Masked(nn.Module):
    """Two layers that add nodes to means, dropout between them."""

    def __init__(self):
        super().__init__()
        self.first = gnn.GINConv(nn.Linear(4, 5), aggr="mean")
        self.second = gnn.GINConv(nn.Linear(5, 3), aggr="mean")

    def forward(self, x, edge_index):
        x = F.dropout(self.first(x, edge_index), 0.2, self.training)
        return self.second(x, edge_index)


def test_a_layer_is_followed_one_way_with_links_and_without():
    """Their rule fits the pass of masks alone, which is held against the whole place by place."""
    torch.manual_seed(0)
    model, data = Masked().double().eval(), graph(0, 0.8, 0.8)
    options = {"task": "regression", "links": "removed"}
    found = vg.predict(model, data, method="first-order", **options)
    drawn = vg.predict(model, data, method="sampled", samples=4000, **options)
    assert float((found.total / drawn.total).median()) == pytest.approx(1, abs=0.1)


class Counting(nn.Module):
    """Divides by the number of neighbours in its own code, where no rule sees it."""

    def __init__(self):
        super().__init__()
        self.conv = gnn.GraphConv(4, 3)

    def forward(self, x, edge_index):
        count = degree(edge_index[1], len(x)).clamp(min=1).to(x.dtype)
        return self.conv(x, edge_index) / count[:, None]


def test_a_model_that_counts_neighbours_by_itself_is_sampled():
    torch.manual_seed(0)
    model, data = Counting().double(), graph(0)
    with pytest.raises(MissingRuleError, match="makes more of its links"):
        predicted(model, data)
    options = {"task": "regression", "links": "removed", "sources": ["links"]}
    found = vg.predict(model, data, samples=4000, **options)
    assert found.method.startswith("sampled")
    variance = truth(model, data)[1]
    assert float((found.total / variance).median()) == pytest.approx(1, abs=0.1)


@pytest.mark.parametrize(("chance", "off"), [(0.8, 0.1), (0.95, 0.05)])
def test_two_steps_of_one_propagation(chance, off):
    """Each degree on a walk is met once."""
    sums, ratios = [], []
    for seed in range(4):
        model = network(lambda *size: gnn.SGConv(*size, K=2), seed=seed)
        data = graph(seed, chance, chance)
        variance, found = truth(model, data)[1], predicted(model, data).total
        ratios.append((found / variance)[variance > 1e-9])
        sums.append(torch.stack([found.sum(), variance.sum()]))
    above, below = torch.stack(sums).sum(0)
    assert float(torch.cat(ratios).median()) == pytest.approx(1, abs=off)
    assert float(above / below) == pytest.approx(1, abs=off)


@pytest.mark.parametrize(("steps", "said"), [(2, ()), (3, ("SGConv",))])
def test_many_steps_say_that_they_are_approximate(steps, said):
    model, data = network(lambda *size: gnn.SGConv(*size, K=steps)), graph(0)
    assert predicted(model, data).approximate == said
    certain = graph(0, 1.0, 1.0)
    assert predicted(model, certain).approximate == ()


@pytest.mark.parametrize(("steps", "off"), [(2, 1e-5), (3, 0.15)])
def test_two_coins_of_silenced_messages(steps, off):
    """The same products of coins under the older reading, by which two steps are exact."""
    torch.manual_seed(0)
    data = graph(0)
    layer = gnn.SGConv(4, 3, K=steps).double()
    half, nodes = data.num_edges // 2, data.num_nodes
    eye = torch.eye(nodes).double()
    with torch.no_grad():
        observed = gnn.SGConv(nodes, nodes, K=1, bias=False).double()
        observed.lin.weight.copy_(eye)
        whole = observed(eye, data.edge_index)
        first = second = 0
        for shown in itertools.product([False, True], repeat=half):
            there = torch.tensor(shown)
            chance = torch.where(there, data.edge_prob[:half], 1 - data.edge_prob[:half]).prod()
            matrix = whole.clone()
            one, two = data.edge_index[:, :half][:, ~there]
            matrix[one, two] = matrix[two, one] = 0
            out = layer.lin(torch.linalg.matrix_power(matrix, steps) @ data.x)
            first, second = first + chance * out, second + chance * out**2
    found = vg.predict(
        layer, data, method="first-order", links="bernoulli", task="regression", samples=0
    )
    variance = second - first**2
    close(found.total, variance, rtol=max(off, 1e-5) * 2)
    assert float(found.total.sum() / variance.sum()) == pytest.approx(1, abs=off)


@pytest.mark.parametrize("method", ["first-order", "covariance", "diagonal"])
@pytest.mark.parametrize("layer", ["sage", "mean", "gcn"])
def test_nodes_without_links_are_answered_in_single_precision(layer, method):
    model, data = network(LAYERS[layer]), graph(0)
    asked = {"method": method, "links": "removed", "task": "regression", "samples": 0}
    data.x = torch.cat([data.x, data.x[:2]])  # two more nodes, to which no link leads
    double = vg.predict(model, data, **asked)
    data.x, data.edge_prob = data.x.float(), data.edge_prob.float()
    single = vg.predict(model.float(), data, **asked)
    close(single.mean.double(), double.mean, rtol=1e-4)
    close(single.total.double(), double.total, rtol=1e-3)


@pytest.mark.parametrize("seed", [2, 8])
def test_degrees_that_hardly_move_keep_their_variance_in_single_precision(seed):
    """The variance of a degree's power is a small difference of squares."""
    torch.manual_seed(seed)
    ends = torch.tensor([[0, 0, 0, 2, 2, 4], [1, 2, 3, 4, 4, 4]])
    data = Data(x=torch.rand(5, 2).double(), edge_index=torch.cat([ends, ends.flip(0)], 1))
    data.edge_prob = torch.tensor([1, 1, 0.99, 0.16, 0.16, 1] * 2).double()
    model = gnn.GCNConv(2, 3).double()
    asked = {"method": "first-order", "task": "regression", "samples": 0}
    double = vg.predict(model, data, **asked)
    data.x, data.edge_prob = data.x.float(), data.edge_prob.float()
    single = vg.predict(model.float(), data, **asked)
    ratio = single.total.double() / double.total
    assert float((ratio - 1).abs().max()) < 1e-4
