"""Links that are removed: brute force against the plain model on every graph that there may be."""

import inspect
import itertools
from functools import partial

import numpy as np
import pytest
import torch
import torch_geometric.nn as gnn
from torch import nn
from torch.nn import functional as F
from torch_geometric import EdgeIndex
from torch_geometric.data import Batch, Data
from torch_geometric.utils import to_torch_csr_tensor

import varigraph as vg
from prediction.networks import CHANCES, tiny_graph
from varigraph.errors import ModelError
from varigraph.sparse import without_notices

#: Standard errors allowed. With 31 degrees of freedom one figure in 2,700 is further off.
ERRORS = 4
LINKS = torch.tensor([[0, 1, 1, 2, 2, 3, 3, 0, 1, 3], [1, 0, 2, 1, 3, 2, 0, 3, 3, 1]])
CHANCE = torch.tensor([0.6, 0.6, 0.9, 0.9, 0.5, 0.5, 0.8, 0.8, 0.7, 0.4]).double()

pytestmark = pytest.mark.filterwarnings("ignore:GAT can be called with edge_attr")


def square(**more):
    """Four nodes; the last two columns are one link in two directions, with a coin for each."""
    draw = torch.Generator().manual_seed(1)
    x = torch.randn(4, 3, generator=draw).double()
    attr = torch.rand(LINKS.shape[1], 2, generator=draw).double()
    return Data(x=x, edge_index=LINKS, edge_prob=CHANCE.clone(), edge_attr=attr, **more)


# ---- the truth: nothing of the package is used ----


def coin_of_each(graph):
    """The coin of each column: one for both directions of equal chance, and for repeated links."""
    columns = list(zip(*graph.edge_index.tolist(), strict=True))
    chance = dict(zip(columns, graph.edge_prob.tolist(), strict=True))
    names = [
        tuple(sorted(link)) if chance.get(link[::-1]) == chance[link] else link for link in columns
    ]
    coins = sorted(set(names))
    place = [coins.index(name) for name in names]
    return place, [chance[columns[place.index(coin)]] for coin in range(len(coins))]


def all_graphs(graph):
    """Which links there are, and the chance of that, for everything that coins may show."""
    place, chance = coin_of_each(graph)
    for shown in itertools.product([False, True], repeat=len(chance)):
        kept = torch.tensor([shown[coin] for coin in place])
        yield kept, np.prod([p if up else 1 - p for up, p in zip(shown, chance, strict=True)])


def moments(graph, answer):
    """Mean and variance of the answers over all graphs, ``answer(kept)`` being that of one."""
    found = [(answer(kept).detach(), chance) for kept, chance in all_graphs(graph)]
    mean = sum(chance * out for out, chance in found)
    return mean, sum(chance * (out - mean) ** 2 for out, chance in found)


def assert_agrees(pred, mean, var):
    for value, error, want in [
        (pred.mean, pred.std_error.mean, mean),
        (pred.total, pred.std_error.total, var),
    ]:
        assert bool(((value - want).abs() <= ERRORS * error + 1e-12).all()), (value, want, error)


def sampled(model, graph, **options):
    asked = {"samples": 800, "task": "regression", **options}
    return vg.predict(model, graph, method="sampled", **asked)


def seeded(make, seed=0):
    torch.manual_seed(seed)
    return make().double().eval()


class Attributed(nn.Module):
    """Two layers that look at the attributes of links."""

    def __init__(self, make):
        super().__init__()
        self.first, self.second = make(3, 4), make(4, 2)

    def forward(self, x, edge_index, edge_attr):
        hidden = self.first(x, edge_index, edge_attr).tanh()
        return self.second(hidden, edge_index, edge_attr)


PLAIN = {
    "GCN": lambda: gnn.GCN(3, 4, 2, 2),
    "SAGE mean": lambda: gnn.GraphSAGE(3, 4, 2, 2),
    "SAGE max": lambda: gnn.GraphSAGE(3, 4, 2, 2, aggr="max"),
    "GAT": lambda: gnn.GAT(3, 4, 2, 2, heads=2),
    "GIN": lambda: gnn.GIN(3, 4, 2, 2),
    "EdgeCNN": lambda: gnn.EdgeCNN(3, 4, 2, 2),
    "std and min": lambda: gnn.GraphSAGE(3, 4, 2, 2, aggr=["std", "min"]),
    "cached GCN": lambda: gnn.GCN(3, 4, 2, 2, cached=True),
}
ATTRIBUTED = {
    "Transformer": lambda a, b: gnn.TransformerConv(a, b, edge_dim=2),
    "GINE": lambda a, b: gnn.GINEConv(nn.Linear(a, b), edge_dim=2),
    "GAT": lambda a, b: gnn.GATConv(a, b, edge_dim=2),
}


@pytest.mark.parametrize("make", PLAIN.values(), ids=PLAIN)
def test_the_model_itself_answers_for_the_graph_without_the_links(make):
    model, graph = seeded(make), square()
    fresh = seeded(make)
    if "cached" in str(inspect.getsource(make)):
        fresh = seeded(PLAIN["GCN"])
        fresh.load_state_dict(model.state_dict())
    mean, var = moments(graph, lambda kept: fresh(graph.x, LINKS[:, kept]))
    pred = sampled(model, graph)
    assert_agrees(pred, mean, var)
    assert torch.equal(pred.by_source["links"], pred.total)


@pytest.mark.parametrize("make", ATTRIBUTED.values(), ids=ATTRIBUTED)
def test_what_belongs_to_a_link_goes_with_it(make):
    model, graph = seeded(lambda: Attributed(make)), square()
    mean, var = moments(graph, lambda kept: model(graph.x, LINKS[:, kept], graph.edge_attr[kept]))
    forward = lambda m, x, data: m(x, data.edge_index, data.edge_attr)  # noqa: E731
    assert_agrees(sampled(model, graph, forward=forward), mean, var)


def test_kinds_of_links_go_with_them():
    graph = square(edge_type=torch.tensor([0, 0, 1, 1, 2, 2, 0, 0, 1, 2]))
    model = seeded(lambda: gnn.RGCNConv(3, 2, 3))
    mean, var = moments(graph, lambda kept: model(graph.x, LINKS[:, kept], graph.edge_type[kept]))
    forward = lambda m, x, data: m(x, data.edge_index, data.edge_type)  # noqa: E731
    assert_agrees(sampled(model, graph, forward=forward), mean, var)


def test_a_sparse_matrix_loses_the_same_links():
    graph, model = square(), seeded(lambda: gnn.SAGEConv(3, 2))
    del graph.edge_attr
    weight = torch.linspace(0.5, 2, 10).double()
    with without_notices():
        graph.adj_t = to_torch_csr_tensor(LINKS.flip(0), weight, size=(4, 4))
    layer = seeded(lambda: gnn.GraphConv(3, 2))
    mean, var = moments(graph, lambda kept: layer(graph.x, LINKS[:, kept], weight[kept]))
    assert_agrees(sampled(layer, graph, forward=lambda m, x, data: m(x, data.adj_t)), mean, var)
    mean, var = moments(graph, lambda kept: model(graph.x, LINKS[:, kept]))
    assert_agrees(sampled(model, graph), mean, var)


def test_a_sorted_edge_index_stays_one():
    class Insists(nn.Module):
        def __init__(self):
            super().__init__()
            self.conv = gnn.SAGEConv(3, 2)

        def forward(self, x, edge_index):
            assert isinstance(edge_index, EdgeIndex)
            return self.conv(x, edge_index)

    graph, model = square(), seeded(Insists)
    by_target = LINKS[1].argsort(stable=True)
    plain = LINKS[:, by_target]
    graph.edge_index = EdgeIndex(plain, sparse_size=(4, 4), sort_order="col")
    graph.edge_prob = CHANCE[by_target]
    listed = Data(edge_index=plain, edge_prob=graph.edge_prob)
    mean, var = moments(listed, lambda kept: model.conv(graph.x, plain[:, kept]))
    assert_agrees(sampled(model, graph), mean, var)


def test_loops_and_links_that_are_listed_twice_have_one_coin():
    graph, model = square(), seeded(lambda: gnn.GraphConv(3, 2, aggr="mean"))
    del graph.edge_attr
    graph.edge_index = torch.cat([LINKS, LINKS[:, :2], torch.tensor([[2], [2]])], 1)
    graph.edge_prob = torch.cat([CHANCE, CHANCE[:2], torch.tensor([0.5]).double()])
    mean, var = moments(graph, lambda kept: model(graph.x, graph.edge_index[:, kept]))
    assert_agrees(sampled(model, graph), mean, var)


def test_a_graph_may_lose_all_links():
    graph = Data(x=torch.eye(2).double(), edge_index=torch.tensor([[0], [1]]))
    graph.edge_prob = torch.tensor([0.1]).double()
    model = seeded(lambda: gnn.GCN(2, 3, 2, 2))
    mean, var = moments(graph, lambda kept: model(graph.x, graph.edge_index[:, kept]))
    assert_agrees(sampled(model, graph), mean, var)


# ---- whole graphs, pooling, pairs of nodes ----


class Pooled(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.pool = gnn.SAGEConv(3, 4), gnn.TopKPooling(4, 0.5)
        self.second = gnn.SAGEConv(4, 2)

    def forward(self, x, edge_index, batch):
        x = self.first(x, edge_index).tanh()
        x, edge_index, _, batch, _, _ = self.pool(x, edge_index, batch=batch)
        return gnn.global_add_pool(self.second(x, edge_index), batch)


def call_by_batch(model, x, data):
    return model(x, data.edge_index, data.batch)


def test_nodes_may_be_pooled_and_graphs_batched():
    one, two = square(), square()
    two.x, two.edge_prob = two.x + 1, two.edge_prob.flip(0)
    two.edge_index = two.edge_index.flip(1)
    for graph in (one, two):
        graph.edge_prob[:4], graph.edge_prob[6:] = 1.0, 1.0  # few coins
        del graph.edge_attr
    batch, model = Batch.from_data_list([one, two]), seeded(Pooled)
    assert torch.equal(one.edge_prob, two.edge_prob)
    mean, var = moments(batch, lambda kept: model(batch.x, batch.edge_index[:, kept], batch.batch))
    assert_agrees(sampled(model, batch, forward=call_by_batch), mean, var)


def test_the_graphs_of_a_batch_can_be_told_apart_without_some_links():
    class ByGraph(nn.Module):
        def __init__(self):
            super().__init__()
            self.conv = gnn.SAGEConv(3, 2)

        def forward(self, x, data):
            graphs = Batch.to_data_list(data)
            parts = x.split([len(graph.x) for graph in graphs])
            pairs = zip(parts, graphs, strict=True)
            return torch.cat([self.conv(part, graph.edge_index) for part, graph in pairs])

    one, two = square(), square()
    one.edge_prob = torch.where(torch.arange(10) < 4, CHANCE, 1.0)
    two.edge_prob = torch.ones(10).double()
    batch, model = Batch.from_data_list([one, two]), seeded(ByGraph)
    mean, var = moments(batch, lambda kept: model.conv(batch.x, batch.edge_index[:, kept]))
    assert_agrees(sampled(model, batch, forward=lambda m, x, data: m(x, data)), mean, var)


def test_pairs_to_score_stay_whatever_links_are_removed():
    def scores(model, x, data):
        hidden = model(x, data.edge_index)
        ends = hidden[data.edge_label_index]
        return (ends[0] * ends[1]).sum(-1, keepdim=True)

    graph, model = square(), seeded(lambda: gnn.SAGEConv(3, 2))
    graph.edge_label_index = LINKS.flip(1)  # as many as there are links
    mean, var = moments(
        graph,
        lambda kept: scores(
            model,
            graph.x,
            Data(edge_index=LINKS[:, kept], edge_label_index=graph.edge_label_index),
        ),
    )
    assert_agrees(sampled(model, graph, forward=scores), mean, var)


def test_an_answer_about_the_links_that_there_are_is_refused():
    def scores(model, x, data):
        return model(x, data.edge_index)[data.edge_index[0]]

    with pytest.raises(ModelError, match="it is about the links that there are") as caught:
        sampled(seeded(lambda: gnn.SAGEConv(3, 2)), square(), forward=scores)
    assert "edge_label_index" in caught.value.remedy


# ---- together with other sources ----

RATE = 0.25


class Tiny(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = gnn.SAGEConv(1, 2), gnn.GraphConv(2, 2, aggr="mean")

    def forward(self, x, edge_index):
        x = F.dropout(self.first(x, edge_index).tanh(), RATE, training=self.training)
        return self.second(x, edge_index)


def every_answer(model):
    """All answers, [noise, links, masks, nodes, outputs], with the chance of each source's draw."""
    weight = {name: p.detach().numpy() for name, p in model.named_parameters()}
    points, chance = np.polynomial.hermite_e.hermegauss(24)
    shown = list(itertools.product([0, 1], repeat=2))
    kept = np.array(list(itertools.product([0, 1], repeat=6)))
    masks = kept.reshape(-1, 3, 2) / (1 - RATE)
    out = np.empty((len(points), len(shown), len(masks), 3, 2))
    for (i, point), (j, (a, b)) in itertools.product(enumerate(points), enumerate(shown)):
        x = np.array([[0.3 + np.sqrt(0.5) * point], [-1.0], [0.8]])
        links = np.array([[0, a, 0], [a, 0, b], [0, b, 0]], dtype=float)
        mean = links / np.maximum(links.sum(1, keepdims=True), 1)  # of the neighbours left
        hidden = np.tanh(
            mean @ x @ weight["first.lin_l.weight"].T
            + weight["first.lin_l.bias"]
            + x @ weight["first.lin_r.weight"].T
        )
        dropped = hidden * masks
        out[i, j] = (
            mean @ dropped @ weight["second.lin_rel.weight"].T
            + weight["second.lin_rel.bias"]
            + dropped @ weight["second.lin_root.weight"].T
        )
    of_links = [np.prod(np.where(up, CHANCES, 1 - np.array(CHANCES))) for up in shown]
    of_masks = [np.prod(np.where(up, 1 - RATE, RATE)) for up in kept]
    return out, [chance / chance.sum(), np.array(of_links), np.array(of_masks)]


def test_every_source_has_its_part():
    model = seeded(Tiny)
    out, chances = every_answer(model)
    joint = np.einsum("i,j,k->ijk", *chances)[..., None, None]
    mean = (joint * out).sum((0, 1, 2))
    total = (joint * (out - mean) ** 2).sum((0, 1, 2))
    pred = sampled(model, tiny_graph(), samples=3000)
    assert_agrees(pred, torch.from_numpy(mean), torch.from_numpy(total))
    rest = total.copy()
    for place, name in enumerate(("features", "links", "weights")):
        others = tuple({0, 1, 2} - {place})
        weight = np.expand_dims(np.outer(*(chances[k] for k in others)), place)[..., None, None]
        given = (weight * out).sum(others)
        share = (chances[place][:, None, None] * (given - mean) ** 2).sum(0)
        rest -= share
        off = (pred.by_source[name] - torch.from_numpy(share)).abs()
        assert bool((off <= ERRORS * pred.std_error.by_source[name] + 1e-12).all()), name
    off = (pred.by_source["interactions"] - torch.from_numpy(rest)).abs()
    assert bool((off <= ERRORS * pred.std_error.by_source["interactions"] + 1e-12).all())


def test_dropout_of_attention_has_the_share_of_masks_that_are_of_links():
    """A mask is that of its link, whichever other links there are."""
    rate, draw = 0.5, torch.Generator().manual_seed(3)
    graph = Data(x=torch.randn(3, 2, generator=draw).double())
    graph.edge_index = torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]])
    graph.edge_prob = torch.tensor([0.6, 0.6, 0.7, 0.7]).double()
    layer = seeded(lambda: gnn.GATConv(2, 1, dropout=rate, bias=False))
    hidden = (graph.x @ layer.lin.weight.T).detach()[:, 0]
    sent, got = hidden * layer.att_src.item(), hidden * layer.att_dst.item()
    ends = [(0, 1), (1, 0), (1, 2), (2, 1), (0, 0), (1, 1), (2, 2)]
    answers = torch.zeros(4, 2**7, 3).double()  # [links, masks, nodes]
    for i, (a, b) in enumerate(itertools.product([0, 1], repeat=2)):
        there = [a, a, b, b, 1, 1, 1]
        for node in range(3):
            into = [k for k, (_, v) in enumerate(ends) if v == node and there[k]]
            score = torch.stack([F.leaky_relu(sent[ends[k][0]] + got[node], 0.2) for k in into])
            weight = dict(zip(into, score.softmax(0).detach(), strict=True))
            for j, up in enumerate(itertools.product([0, 1], repeat=7)):
                answers[i, j, node] = sum(
                    up[k] / (1 - rate) * weight[k] * hidden[ends[k][0]] for k in into
                )
    chance = torch.tensor([0.4 * 0.3, 0.4 * 0.7, 0.6 * 0.3, 0.6 * 0.7]).double()
    of_masks = torch.einsum("l,lmn->mn", chance, answers).var(0, correction=0)
    pred = sampled(layer, graph, samples=2500)
    found, error = pred.by_source["weights"][:, 0], pred.std_error.by_source["weights"][:, 0]
    assert bool(((found - of_masks).abs() <= ERRORS * error).all()), (found, of_masks, error)


def test_a_link_that_is_not_considered_is_there():
    model, graph = seeded(PLAIN["GCN"]), square(x_var=1e-20)
    own = model(graph.x, LINKS).detach()
    held = sampled(model, graph, sources=("features",), samples=10)
    torch.testing.assert_close(held.mean, own, rtol=0, atol=1e-8)
    assert float(held.by_source["links"].max()) == 0


@pytest.mark.parametrize("make", PLAIN.values(), ids=PLAIN)
def test_links_that_are_nearly_certain_leave_the_answer_of_the_model(make):
    model, graph = seeded(make), square()
    graph.edge_prob = torch.full((10,), 1 - 1e-12, dtype=torch.float64)
    state = {name: value.clone() for name, value in model.state_dict().items()}
    pred = sampled(model, graph, samples=20)
    torch.testing.assert_close(pred.mean, model(graph.x, LINKS).detach(), rtol=0, atol=1e-12)
    assert float(pred.total.max()) < 1e-24
    assert all(torch.equal(value, state[name]) for name, value in model.state_dict().items())


# ---- never silently another graph ----


class Remembers(nn.Module):
    """Keeps the first links that it sees, as users do to normalise once."""

    def __init__(self, links=None):
        super().__init__()
        self.conv, self.links = gnn.SAGEConv(3, 2), links

    def forward(self, x, edge_index):
        if self.links is None:
            self.links = edge_index
        return self.conv(x, self.links)


def test_what_a_run_leaves_on_the_model_does_not_reach_the_next():
    model, graph = seeded(Remembers), square()
    mean, var = moments(graph, lambda kept: model.conv(graph.x, LINKS[:, kept]))
    assert_agrees(sampled(model, graph), mean, var)
    assert model.links is None


def test_links_that_the_model_does_not_get_from_its_graph_are_refused():
    graph = square()
    asked = [
        (seeded(lambda: Remembers(LINKS)), {}),
        (seeded(lambda: gnn.SAGEConv(3, 2)), {"forward": lambda m, x, data: m(x, LINKS)}),
        (seeded(lambda: nn.Linear(3, 2)), {"forward": lambda m, x, data: m(x)}),
    ]
    for model, options in asked:
        blamed = partial(vg.attribute, node=0, task="regression", output=0, method="sampled")
        for call in (sampled, blamed):
            with pytest.raises(ModelError, match="the answer is the same without them"):
                call(model, graph, **options)


def test_a_network_that_needs_its_links_is_told_so():
    class Counts(nn.Module):
        def __init__(self):
            super().__init__()
            self.conv, self.weight = gnn.GraphConv(3, 2), nn.Parameter(torch.ones(10))

        def forward(self, x, edge_index):
            return self.conv(x, edge_index, self.weight)

    with pytest.raises(ModelError, match=r"Counts fails on the graph without \d+ of its links"):
        sampled(seeded(Counts), square())


def test_memory_is_planned_for_all_links():
    """Few links are drawn, and one run has all of them."""
    draw = torch.Generator().manual_seed(0)
    links = torch.randint(0, 300, (2, 60_000), generator=draw)
    links = links[:, links[0] != links[1]].unique(dim=1)
    model, needs = seeded(lambda: gnn.GATConv(16, 16)), []
    for prob in (0.02, 0.98):
        graph = Data(x=torch.rand(300, 16, generator=draw).double(), edge_index=links)
        graph.edge_prob = torch.full((links.shape[1],), prob).double()
        with pytest.raises(vg.errors.TooLargeError) as caught:
            sampled(model, graph, samples=4, memory="30MiB")
        needs.append(int(caught.value.remedy.split('"')[1].removesuffix("MiB")))
    assert needs[0] > 0.9 * needs[1]


def test_removed_is_what_a_doubtful_link_means():
    for function in (vg.predict, vg.audit, vg.attribute, vg.report):
        assert inspect.signature(function).parameters["links"].default == "removed"
    graph, model = square(), seeded(PLAIN["GCN"])
    assert torch.equal(sampled(model, graph).mean, sampled(model, graph, links="removed").mean)
    coins = sampled(model, graph, links="bernoulli")
    assert not torch.allclose(coins.total, sampled(model, graph).total, rtol=0.2)
