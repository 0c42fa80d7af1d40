"""Brute force against enumeration and naive loops, and that it does not depend on the way there."""

import importlib
import itertools
import warnings

import numpy as np
import pytest
import torch
import torch_geometric.nn as gnn
from torch import nn
from torch.nn import functional as F
from torch_geometric.data import Data
from torch_geometric.utils import dropout_edge, erdos_renyi_graph, to_torch_csr_tensor

import varigraph as vg
from prediction.networks import CHANCES, Functional, WithModules, made, noisy_ring, ring, tiny_graph
from prediction.test_predict import Neuron, reference_graph
from varigraph.errors import ModelError, OptionError
from varigraph.prediction.masks import Site, draw_masks
from varigraph.prediction.sampled import shortcuts
from varigraph.prediction.sampled.draws import normals
from varigraph.prediction.sampled.plan import Plan
from varigraph.sparse import _Product

#: Standard errors allowed. With 31 degrees of freedom one figure in 2,700 is further off.
ERRORS = 4


def sampled(model, graph, **options):
    """Links are coins that silence messages; test_removed.py has those that are taken away."""
    given = {"samples": 400, "links": "bernoulli", **options}
    return vg.predict(model, graph, method="sampled", **given)


def assert_within(value, error, want, slack=1e-12):
    assert bool(((value - want).abs() <= ERRORS * error + slack).all()), (value, want, error)


def uncertain_ring(prob=0.7, **options):
    graph = noisy_ring(**options)
    graph.edge_prob = torch.full((graph.edge_index.shape[1],), prob, dtype=graph.x.dtype)
    return graph


# ---- against enumeration ----

RATE = 0.25


class Tiny(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = gnn.SAGEConv(1, 2), gnn.GraphConv(2, 2)

    def forward(self, x, edge_index):
        x = F.dropout(self.first(x, edge_index).tanh(), RATE, training=self.training)
        return self.second(x, edge_index)


def enumerated(model, answer, sources=("features", "links", "weights")):
    """All answers, [noise, links, masks, nodes, classes], with the chance of each source's draw.

    A source that is not asked for is held at its mean.
    """
    weight = {name: p.detach().numpy() for name, p in model.named_parameters()}
    noise = np.polynomial.hermite_e.hermegauss(24) if "features" in sources else ([0.0], [1.0])
    coins, masks = [CHANCES], np.ones((1, 3, 2))
    chances = [np.array(noise[1]) / np.sum(noise[1]), np.ones(1), np.ones(1)]
    if "links" in sources:
        coins = list(itertools.product([0, 1], repeat=2))
        chances[1] = np.array([chance(drawn, CHANCES) for drawn in coins])
    if "weights" in sources:
        kept = np.array(list(itertools.product([0, 1], repeat=6)))
        masks = kept.reshape(-1, 3, 2) / (1 - RATE)
        chances[2] = np.array([chance(drawn, [1 - RATE] * 6) for drawn in kept])
    out = np.empty((len(noise[0]), len(coins), len(masks), 3, 2))
    for i, point in enumerate(noise[0]):
        x = np.array([[0.3 + np.sqrt(0.5) * point], [-1.0], [0.8]])
        for j, (a, b) in enumerate(coins):
            summed = np.array([[0, a, 0], [a, 0, b], [0, b, 0]], dtype=float)
            mean = summed / np.array([[1], [2], [1]])  # a coin does not change the count
            hidden = np.tanh(
                mean @ x @ weight["first.lin_l.weight"].T
                + weight["first.lin_l.bias"]
                + x @ weight["first.lin_r.weight"].T
            )
            dropped = hidden * masks
            out[i, j] = (
                summed @ dropped @ weight["second.lin_rel.weight"].T
                + weight["second.lin_rel.bias"]
                + dropped @ weight["second.lin_root.weight"].T
            )
    return answer(out), chances


def chance(drawn, chances):
    return np.prod([p if up else 1 - p for up, p in zip(drawn, chances, strict=True)])


def shares(out, chances):
    """Mean, total and parts from all answers."""
    joint = np.einsum("i,j,k->ijk", *chances)[..., None, None]
    mean = (joint * out).sum((0, 1, 2))
    total = (joint * (out - mean) ** 2).sum((0, 1, 2))
    parts = {}
    for place, name in enumerate(("features", "links", "weights")):
        rest = tuple({0, 1, 2} - {place})
        others = np.expand_dims(np.outer(*(chances[r] for r in rest)), place)[..., None, None]
        given = (others * out).sum(rest)
        parts[name] = (chances[place][:, None, None] * (given - mean) ** 2).sum(0)
    parts["interactions"] = total - sum(parts.values())
    return [torch.from_numpy(v) for v in (mean, total)], parts


def softmax(out):
    powers = np.exp(out)
    return powers / powers.sum(-1, keepdims=True)


@pytest.mark.parametrize("task", ["regression", "classification"])
def test_every_figure_agrees_with_enumeration(task):
    model = made(Tiny)
    answer = softmax if task == "classification" else lambda out: out
    (mean, total), parts = shares(*enumerated(model, answer))
    pred = sampled(model, tiny_graph(), samples=20_000, task=task)
    assert_within(pred.mean, pred.std_error.mean, mean)
    assert_within(pred.total, pred.std_error.total, total)
    for name, want in parts.items():
        assert_within(pred.by_source[name], pred.std_error.by_source[name], torch.from_numpy(want))
    (logit_mean, logit_total), _ = shares(*enumerated(model, lambda out: out))
    assert torch.allclose(pred.logits.mean, logit_mean, atol=0.03)
    assert torch.allclose(pred.logits.var, logit_total, rtol=0.1)


@pytest.mark.parametrize("sources", [("features",), ("links",), ("weights",), ("links", "weights")])
def test_what_is_not_considered_is_held_at_its_mean(sources):
    model = made(Tiny)
    (mean, total), parts = shares(*enumerated(model, lambda out: out, sources))
    pred = sampled(model, tiny_graph(), samples=8000, task="regression", sources=sources)
    assert_within(pred.mean, pred.std_error.mean, mean)
    assert_within(pred.total, pred.std_error.total, total)
    for name, want in parts.items():
        assert_within(pred.by_source[name], pred.std_error.by_source[name], torch.from_numpy(want))
        if name not in (*sources, "interactions"):
            assert not pred.by_source[name].any()


# ---- the reference neuron ----

REFERENCE = {"features": 0.4025, "weights": 0.565556, "interactions": 0.044722, "links": 0.0}


def test_the_reference_neuron():
    pred = sampled(Neuron().double(), reference_graph(), samples=20_000, task="regression")
    for name, want in REFERENCE.items():
        assert_within(pred.by_source[name], pred.std_error.by_source[name], want)
    assert_within(pred.total, pred.std_error.total, 1.012778)
    assert_within(pred.mean, pred.std_error.mean, -0.7)
    assert pred.std_error.by_source["links"].item() == 0


def test_standard_errors_are_honest():
    """Over 30 seeds, figures spread as far as their errors say."""
    preds = [
        sampled(Neuron().double(), reference_graph(), samples=1000, seed=seed, task="regression")
        for seed in range(30)
    ]
    figures = {
        "mean": [(p.mean, p.std_error.mean) for p in preds],
        "total": [(p.total, p.std_error.total) for p in preds],
        **{
            name: [(p.by_source[name], p.std_error.by_source[name]) for p in preds]
            for name in ("features", "weights", "interactions")
        },
    }
    for name, pairs in figures.items():
        values, errors = (torch.stack(column).flatten() for column in zip(*pairs, strict=True))
        assert 0.5 < float(values.std() / errors.square().mean().sqrt()) < 1.5, name


def test_too_few_draws_have_no_standard_error():
    pred = sampled(Neuron().double(), reference_graph(), samples=8, task="regression")
    assert pred.samples == 8
    assert pred.std_error.total.isnan().all()


# ---- any layer, against a naive loop ----


class Gated(gnn.MessagePassing):
    """A layer that nobody has a rule for."""

    def __init__(self):
        super().__init__(aggr="max")
        self.value, self.gate = nn.Linear(4, 3), nn.Linear(8, 3)

    def forward(self, x, edge_index):
        return self.propagate(edge_index, x=x)

    def message(self, x_i, x_j):
        return self.value(x_j) * self.gate(torch.cat([x_i, x_j], dim=-1)).sigmoid()


class Transformer(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = gnn.TransformerConv(4, 3, heads=2, concat=False, dropout=0.3, beta=True)

    def forward(self, x, edge_index):
        return self.conv(x, edge_index)


ANY = {
    "GATConv": lambda: gnn.GAT(4, 6, 2, 3, heads=2, dropout=0.3),
    "TransformerConv": Transformer,
    "own layer": Gated,
}


@pytest.mark.parametrize("name", ANY)
def test_any_layer_agrees_with_a_naive_loop(name):
    model, graph = made(ANY[name]), noisy_ring()
    runs = 2000
    with torch.random.fork_rng(), torch.no_grad():
        torch.manual_seed(0)
        model.train()
        loop = torch.stack([
            model(graph.x + 0.3**0.5 * torch.randn_like(graph.x), graph.edge_index)
            for _ in range(runs)
        ])  # fmt: skip
        model.eval()
    pred = sampled(model, graph, samples=4000, task="regression")
    mean_error = (loop.var(0) / runs + pred.std_error.mean**2).sqrt()
    assert_within(pred.mean, mean_error, loop.mean(0))
    spread = (loop - loop.mean(0)).square().var(0) / runs
    assert_within(pred.total, (spread + pred.std_error.total**2).sqrt(), loop.var(0))


@pytest.mark.parametrize("name", ANY)
def test_features_and_coins_draw_by_draw(name):
    """The same draws by hand: messages that a coin removes, one coin for both directions."""
    model, graph = made(ANY[name]), uncertain_ring()
    pred = sampled(model, graph, samples=12, task="regression", sources=("features",))
    with torch.no_grad():
        half = [model_with_weights(model, graph, normals((6, 4), s, seed=0)) for s in range(12)]
    assert torch.allclose(pred.mean, torch.stack(half).mean(0), atol=1e-6)
    assert torch.allclose(pred.total, torch.stack(half).var(0), atol=1e-6)


def model_with_weights(model, graph, noise):
    hooks = [
        layer.register_message_forward_hook(lambda layer, inputs, out: weighted(layer, out))
        for layer in model.modules()
        if isinstance(layer, gnn.MessagePassing)
    ]

    def weighted(layer, out):
        weight = out.new_full((len(out),), 0.7)
        if getattr(layer, "add_self_loops", False):
            weight[12:] = 1
        return out * weight.view(-1, *[1] * (out.dim() - 1))

    try:
        return model(graph.x + 0.3**0.5 * noise, graph.edge_index)
    finally:
        for hook in hooks:
            hook.remove()


# ---- the way there does not matter ----


@pytest.fixture
def chunks(monkeypatch):
    """Sizes of the chunks of runs, as they are asked for; two runs are a trial."""
    network = importlib.import_module("varigraph.prediction.sampled.network").Network
    at_once, sizes = network.at_once, []

    def counted(self, draws, sites):
        if len(draws) > 2:
            sizes.append(len(draws))
        return at_once(self, draws, sites)

    monkeypatch.setattr(network, "at_once", counted)
    return sizes


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("build", [Functional, lambda: gnn.GAT(4, 6, 2, 3, heads=2, dropout=0.3)])
def test_the_answer_does_not_depend_on_the_chunks(build, dtype, chunks, monkeypatch):
    model, graph = made(build, dtype), uncertain_ring(dtype=dtype)
    whole = sampled(model, graph, samples=40)
    assert chunks == [40]
    for plan in (Plan(4, 4, False), Plan(8, 3, True), Plan(16, 7, False)):
        chunks.clear()
        monkeypatch.setattr(Plan, "of", lambda *_, plan=plan, **__: plan)
        pieces = sampled(model, graph, samples=40)
        assert chunks[0] == plan.at_once
        for part, value in whole.by_source.items():
            assert torch.allclose(value, pieces.by_source[part], atol=1e-6)
        assert torch.allclose(whole.mean, pieces.mean, atol=1e-6)
        assert torch.allclose(whole.logits.var, pieces.logits.var, atol=1e-6)
        assert torch.allclose(whole.std_error.total, pieces.std_error.total, atol=1e-6)


def test_networks_that_vmap_cannot_follow_are_run_one_by_one(chunks):
    class Branching(Functional):
        def forward(self, x, edge_index):
            hidden = super().forward(x, edge_index)
            return hidden + 1 if hidden.sum().item() > 1e9 else hidden

    graph = uncertain_ring()
    a, b = (sampled(made(kind), graph, samples=20) for kind in (Functional, Branching))
    assert chunks == [20, 20]
    assert torch.allclose(a.total, b.total)


def test_the_same_seed_gives_the_same_answer_and_another_does_not():
    model, graph = made(Functional), uncertain_ring()
    first, again, other = (sampled(model, graph, samples=12, seed=s) for s in (3, 3, 4))
    assert torch.equal(first.total, again.total)
    assert not torch.allclose(first.total, other.total)


def test_functional_and_module_dropout_are_the_same_network():
    model, twin = made(Functional), made(WithModules)
    twin.load_state_dict(model.state_dict())
    a, b = (sampled(m, noisy_ring(), samples=20) for m in (model, twin))
    assert torch.equal(a.total, b.total)


def test_masks_are_those_of_the_other_methods():
    model, graph = made(Functional), ring()
    pred = sampled(model, graph, samples=9, task="regression", seed=5)
    masks = draw_masks(Site(torch.Size([6, 8]), 0.4), 0, range(9), seed=5).double()
    with torch.no_grad():
        hidden = F.relu(model.first(graph.x, graph.edge_index))
        runs = torch.stack([model.second(hidden * mask, graph.edge_index) for mask in masks])
    assert torch.allclose(pred.mean, runs.mean(0))
    assert torch.allclose(pred.epistemic, runs.var(0))


def test_nodes_restrict_the_answer():
    model, graph = made(Functional), uncertain_ring()
    whole = sampled(model, graph, samples=40)
    picked = sampled(model, graph, samples=40, nodes=[4, 1])
    assert torch.allclose(picked.total, whole.total[[4, 1]])
    assert torch.allclose(picked.std_error.mean, whole.std_error.mean[[4, 1]])


def test_answers_lie_on_the_scale_of_probabilities():
    pred = sampled(made(Functional), uncertain_ring())
    assert torch.allclose(pred.mean.sum(1), torch.ones(6).double())
    assert bool((pred.total <= pred.mean * (1 - pred.mean)).all())


@pytest.mark.parametrize("last", [F.log_softmax, F.softmax, torch.softmax])
def test_a_softmax_at_the_end_changes_nothing(last):
    class Ends(Functional):
        def forward(self, x, edge_index):
            return last(super().forward(x, edge_index), dim=1)

    a, b = (sampled(made(kind), uncertain_ring(), samples=40) for kind in (Functional, Ends))
    assert torch.allclose(a.mean, b.mean)
    assert torch.allclose(a.total, b.total)
    assert torch.allclose(a.logits.mean, b.logits.mean)


def test_picking_rows_of_a_softmax_is_followed():
    class Picks(Functional):
        def forward(self, x, edge_index):
            return super().forward(x, edge_index).softmax(-1)[[2, 0]]

    whole, picked = (sampled(made(kind), noisy_ring(), samples=40) for kind in (Functional, Picks))
    assert torch.allclose(picked.total, whole.total[[2, 0]])


def test_links_as_weights_are_no_coins():
    graph = uncertain_ring()
    graph.x_var = 0.0
    with pytest.warns(UserWarning, match="nothing is uncertain"):
        pred = sampled(made(lambda: gnn.GCN(4, 8, 2, 3)), graph, links="weight")
    assert pred.samples == 0
    assert not pred.total.any()
    assert not pred.std_error.total.any()


def test_dropout_is_injected_where_there_is_none():
    model = made(lambda: gnn.GraphSAGE(4, 8, 2, 3))
    twin = made(lambda: gnn.GraphSAGE(4, 8, 2, 3, dropout=0.4))
    twin.load_state_dict(model.state_dict())
    injected = sampled(model, noisy_ring(), samples=40, dropout=0.4)
    assert torch.equal(injected.total, sampled(twin, noisy_ring(), samples=40).total)


def test_randomness_that_is_not_dropout_counts_as_weights():
    class DropsLinks(Functional):
        def forward(self, x, edge_index):
            kept, _ = dropout_edge(edge_index, p=0.3, training=True)
            return super().forward(x, kept)

    model = made(DropsLinks)
    state = torch.get_rng_state()
    pred = sampled(model, noisy_ring(), samples=40)
    assert torch.equal(torch.get_rng_state(), state)
    assert torch.equal(pred.total, sampled(model, noisy_ring(), samples=40).total)
    assert not torch.allclose(pred.total, sampled(made(Functional), noisy_ring(), samples=40).total)
    alone = sampled(model, ring(), samples=40)
    assert float(alone.epistemic.min()) > 0


def test_cached_layers_see_every_draw():
    graph = noisy_ring()
    model = made(lambda: gnn.SGConv(4, 3, K=2, cached=True))
    with torch.no_grad():
        model(graph.x, graph.edge_index)
    held = model._cached_x
    pred = sampled(model, graph, samples=40)
    assert torch.equal(pred.total, sampled(made(lambda: gnn.SGConv(4, 3, K=2)), graph,
                                           samples=40).total)  # fmt: skip
    assert model._cached_x is held
    assert model.cached


def test_the_model_is_as_before():
    model = made(lambda: gnn.GAT(4, 8, 2, 3, dropout=0.3, norm="batch_norm"))
    model.train()
    model.convs[0].eval()
    modes = [m.training for m in model.modules()]
    attributes = [set(vars(m)) for m in model.modules()]
    state = {k: v.clone() for k, v in model.state_dict().items()}
    random_before = torch.get_rng_state()
    sampled(model, uncertain_ring(), samples=8)
    with pytest.raises(ModelError):
        sampled(model, uncertain_ring(), forward=lambda m, x, data: "nothing")
    assert [m.training for m in model.modules()] == modes
    assert [set(vars(m)) for m in model.modules()] == attributes
    assert all(torch.equal(v, state[k]) for k, v in model.state_dict().items())
    assert torch.equal(torch.get_rng_state(), random_before)
    assert not any(m._message_forward_hooks for m in model.modules() if isinstance(m, gnn.GATConv))


# ---- short cuts on larger graphs ----


def larger_graph(nodes=250, features=120, dtype=torch.float32):
    generator = torch.Generator().manual_seed(0)
    with torch.random.fork_rng():
        torch.manual_seed(0)
        edge_index = erdos_renyi_graph(nodes, 12 / nodes)
    x = torch.randn(nodes, features, generator=generator).to(dtype)
    return Data(x=x, edge_index=edge_index, x_var=torch.tensor(0.2))


@pytest.fixture
def found(monkeypatch):
    """What was found out about the network in each prediction."""
    seen, of = [], Plan.of.__func__

    def noted(kind, explored, *args, **kwargs):
        seen.append(explored)
        return of(kind, explored, *args, **kwargs)

    monkeypatch.setattr(Plan, "of", classmethod(noted))
    return seen


def test_a_linear_network_in_the_small_space_agrees_with_its_jacobian(found):
    graph = larger_graph()

    class Linear(nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.second = gnn.SAGEConv(120, 16), gnn.GCNConv(16, 2)

        def forward(self, x, edge_index):
            return self.second(self.first(x, edge_index), edge_index)

    model = made(Linear, torch.float32)
    pred = sampled(model, graph, samples=800, task="regression", nodes=range(15))
    assert found[0].network.features.mean.shape == (250, 32)
    jac = torch.autograd.functional.jacobian(lambda x: model(x, graph.edge_index)[:15], graph.x)
    ratio = pred.total / (0.2 * jac.square().sum((2, 3)))
    error = (2 / 800) ** 0.5  # of a variance of Gaussian draws
    assert bool(((ratio - 1).abs() < ERRORS * error).all())
    assert float(ratio.mean()) == pytest.approx(1, abs=2 * error)


LARGER = {
    "SAGE": (lambda: gnn.GraphSAGE(120, 16, 2, 3, dropout=0.3), True, True),
    "GCN": (lambda: gnn.GCN(120, 16, 2, 3, dropout=0.3), True, True),
    "GIN": (lambda: gnn.GIN(120, 16, 2, 3, dropout=0.3), True, True),
    "GAT": (lambda: gnn.GAT(120, 16, 2, 3, dropout=0.3, heads=2), True, False),
    "max": (lambda: gnn.GraphSAGE(120, 16, 2, 3, dropout=0.3, aggr="max"), False, False),
    "skip": (lambda: gnn.GraphSAGE(120, 16, 2, 3, dropout=0.3, jk="cat"), True, True),
}


@pytest.mark.parametrize("name", LARGER)
def test_short_cuts_lead_to_the_same_answer(name, found, monkeypatch):
    build, small, beside = LARGER[name]
    model, graph = made(build, torch.float32), larger_graph()
    graph.x_var = 0.0
    graph.edge_prob = torch.full((graph.edge_index.shape[1],), 0.8)
    quick = sampled(model, graph, samples=24)
    assert found[0].batched == beside
    assert (found[0].network.features.mean.shape[1] < 120) == (small and not beside)
    assert (found[0].network.prefix is not None) == (not beside)
    assert (found[0].network.fixed is not None) == beside
    monkeypatch.setattr(shortcuts, "_tosses_sums", lambda network: False)
    monkeypatch.setattr(shortcuts.Trial, "in_small_space", lambda self: (self.network, self.first))
    monkeypatch.setattr(shortcuts.Trial, "use_sparse_products", lambda self, network, stack: None)
    plain = sampled(model, graph, samples=24)
    assert found[1].network.features.mean.shape[1] == 120
    for part, value in plain.by_source.items():
        assert torch.allclose(value, quick.by_source[part], atol=1e-6)
    assert torch.allclose(quick.logits.var, plain.logits.var, rtol=1e-3, atol=1e-6)


@pytest.mark.parametrize("build", [gnn.GCN, gnn.GIN])
@pytest.mark.parametrize("sources", [None, ("features",), ("weights",)])
def test_draws_that_share_a_product_are_the_same(build, sources, found, monkeypatch):
    model, graph = made(lambda: build(120, 16, 2, 3, dropout=0.3), torch.float32), larger_graph()
    asked = {"samples": 30, "sources": sources}
    monkeypatch.setattr(shortcuts, "SHORT", {"cpu": 0})
    one_by_one = sampled(model, graph, **asked)
    columns, rule = [], _Product.vmap

    def watched(info, dims, matrix, values, x):
        columns.append(x.shape[dims[2]])
        return rule(info, dims, matrix, values, x)

    monkeypatch.setattr(_Product, "vmap", staticmethod(watched))
    monkeypatch.setattr(shortcuts, "SHORT", {"cpu": 2**20})
    monkeypatch.setattr(shortcuts, "BY_COLUMNS", {"cpu"})
    together = sampled(model, graph, **asked)
    assert [each.batched for each in found] == [False, True]
    layers = 1 if sources == ("weights",) else 2  # masks come after the first, which all share
    assert sum(columns) == layers * together.samples
    for part, value in one_by_one.by_source.items():
        torch.testing.assert_close(together.by_source[part], value, rtol=1e-4, atol=1e-7)
    torch.testing.assert_close(together.logits.var, one_by_one.logits.var, rtol=1e-4, atol=1e-7)


class Unusual(nn.Module):
    """Networks that a short cut would get wrong: each does something to its features first."""

    def __init__(self, first):
        super().__init__()
        self.step, self.conv, self.head = first, gnn.SAGEConv(120, 16), nn.Linear(16, 3)

    def forward(self, x, edge_index):
        return self.head(F.elu_(self.conv(self.step(self, x), edge_index)))


FIRST = {
    "clamp": lambda self, x: x.clamp(min=-0.5),
    "dropout": lambda self, x: F.dropout(x, 0.2, training=self.training),
    "norm": lambda self, x: F.normalize(x, dim=-1),
    "part": lambda self, x: torch.cat([x[:, :60], x[:, 60:].relu()], dim=1),
}


@pytest.mark.parametrize("name", FIRST)
def test_features_that_are_changed_first_are_drawn_in_full(name, found):
    model, graph = made(lambda: Unusual(FIRST[name]), torch.float32), larger_graph()
    sampled(model, graph, samples=8)
    assert found[0].network.features.mean.shape == (250, 120)


def test_changes_in_place_do_not_spoil_what_is_kept(found):
    class InPlace(nn.Module):
        def __init__(self):
            super().__init__()
            self.conv, self.head = gnn.SAGEConv(120, 16), gnn.SAGEConv(16, 3)
            self.drop = nn.Dropout(0.5, inplace=True)

        def forward(self, x, edge_index):
            return self.head(self.drop(F.elu_(self.conv(x, edge_index))), edge_index)

    graph = larger_graph()
    graph.x_var = 0.0
    model = made(InPlace, torch.float32)
    pred = sampled(model, graph, samples=6, task="regression")
    masks = draw_masks(Site(torch.Size([250, 16]), 0.5), 0, range(6), seed=0)
    with torch.no_grad():
        hidden = F.elu(model.conv(graph.x, graph.edge_index))
        runs = torch.stack([model.head(hidden * mask, graph.edge_index) for mask in masks])
    assert torch.allclose(pred.total, runs.var(0), atol=1e-5)


@pytest.mark.parametrize("graph", [ring(), larger_graph()])
def test_networks_that_write_to_their_features_are_given_copies(graph):
    class Writes(nn.Module):
        def __init__(self):
            super().__init__()
            self.conv = gnn.SAGEConv(graph.x.shape[1], 3)

        def forward(self, x, edge_index):
            return self.conv(F.dropout(x.mul_(2), 0.5, self.training), edge_index)

    model, before = made(Writes, graph.x.dtype), graph.x.clone()
    graph.x_var = 0.0
    pred = sampled(model, graph, samples=6, task="regression")
    assert torch.equal(graph.x, before)
    masks = draw_masks(Site(graph.x.shape, 0.5), 0, range(6), seed=0).to(graph.x)
    with torch.no_grad():
        runs = torch.stack([model.conv(2 * graph.x * mask, graph.edge_index) for mask in masks])
    assert torch.allclose(pred.total, runs.var(0), rtol=1e-4, atol=1e-5)


def test_layers_before_the_first_dropout_are_computed_once(monkeypatch):
    graph = larger_graph()
    graph.x_var = 0.0
    model = made(lambda: gnn.GraphSAGE(120, 16, 2, 3, dropout=0.3), torch.float32)
    calls = []
    forward = gnn.SAGEConv.forward

    def counted(layer, *args, **kwargs):
        calls.append(layer.in_channels)
        return forward(layer, *args, **kwargs)

    monkeypatch.setattr(gnn.SAGEConv, "forward", counted)
    sampled(model, graph, samples=50)
    assert calls.count(120) == 3  # once by the plain way, by the fast one, and by itself
    assert calls.count(16) > 50


def test_adjacency_as_a_sparse_matrix():
    graph = larger_graph()
    model = made(lambda: gnn.GraphSAGE(120, 16, 2, 3, dropout=0.3), torch.float32)
    want = sampled(model, graph, samples=12)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        adj_t = to_torch_csr_tensor(graph.edge_index.flip(0), size=(250, 250))
    sparse = Data(x=graph.x, x_var=graph.x_var, adj_t=adj_t)
    assert torch.allclose(sampled(model, sparse, samples=12).total, want.total, atol=1e-6)


# ---- errors ----


def errs(kind, match, model=None, graph=None, **options):
    with pytest.raises(kind, match=match):
        sampled(model or made(Functional), graph or noisy_ring(), **options)


def test_options_that_make_no_sense():
    errs(OptionError, "samples=0 is too few", samples=0)
    errs(OptionError, "samples=1 is too few", samples=1)
    errs(OptionError, "has its own, of rate 0.4", dropout=0.1)
    errs(OptionError, "node 9", nodes=[0, 9])


def test_answers_that_are_none():
    errs(ModelError, "a tuple with 2", forward=lambda m, x, d: (x, x))
    errs(ModelError, "a str", forward=lambda m, x, d: "nothing")
    errs(ModelError, "one value per class", made(lambda: gnn.GCNConv(4, 1)))
    errs(ModelError, "looks like class probabilities",
         forward=lambda m, x, d: m(x, d.edge_index).softmax(-1) * 1.0)  # fmt: skip
    errs(ModelError, "over another axis", forward=lambda m, x, d: m(x, d.edge_index).softmax(0))
    model = made(Functional)
    with torch.no_grad():
        model.second.bias[0] = float("nan")
    errs(ModelError, "not a finite number", model)


def test_draws_that_the_network_does_not_survive():
    graph = noisy_ring()
    graph.x = graph.x.abs()
    errs(ModelError, "for some of the draws", graph=graph,
         forward=lambda m, x, d: m(x.sqrt(), d.edge_index))  # fmt: skip


def test_link_probabilities_that_nobody_uses_are_refused():
    graph = uncertain_ring()
    errs(ModelError, "no MessagePassing layer", made(lambda: gnn.MLP([4, 8, 3], norm=None)), graph,
         forward=lambda m, x, d: m(x))  # fmt: skip
    errs(ModelError, "no message-passing layer used them", graph=graph,
         forward=lambda m, x, d: x[:, :3])  # fmt: skip


def test_randomness_in_evaluation_mode_is_not_certain():
    class Noisy(Functional):
        def forward(self, x, edge_index):
            return super().forward(x + torch.randn_like(x), edge_index)

    errs(ModelError, "even in evaluation mode", made(Noisy), sources=("features",))
