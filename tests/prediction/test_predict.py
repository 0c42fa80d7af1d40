"""What users rely on: the answer, that it does not depend on how it is computed, and the errors."""

import dataclasses
import warnings

import numpy as np
import pytest
import torch
import torch_geometric.nn as gnn
from torch import nn
from torch.nn import functional as F
from torch_geometric import EdgeIndex
from torch_geometric.data import Data
from torch_geometric.utils import to_torch_csr_tensor

import varigraph as vg
from prediction.networks import Functional, WithModules, made, noisy_ring, ring
from varigraph.errors import GraphError, MissingRuleError, ModelError, OptionError
from varigraph.moments.registry import LAYERS
from varigraph.prediction import memory


def diagonal(model, graph, **options):
    """The paper's method, whatever is left to it."""
    return vg.predict(model, graph, **{"method": "diagonal", "links": "bernoulli", **options})


# ---- equation 13 ----


class Neuron(nn.Module):
    """Dropout in front of one linear unit: the reference case, with a closed form."""

    def __init__(self):
        super().__init__()
        self.unit = nn.Linear(3, 1, bias=False)
        self.unit.weight = nn.Parameter(torch.tensor([[1.0, -2.0, 0.5]]))

    def forward(self, x, edge_index):
        return self.unit(F.dropout(x, 0.1, training=self.training))


class DroppedThenSummed(nn.Module):
    """Dropout of the features, then one layer."""

    def __init__(self):
        super().__init__()
        self.layer = gnn.SAGEConv(4, 3)

    def forward(self, x, edge_index):
        return self.layer(F.dropout(x, 0.3, training=self.training), edge_index)


def reference_graph(nodes=1):
    return Data(
        x=torch.tensor([[0.3, 1.0, 2.0]]).expand(nodes, 3).double(),
        edge_index=torch.zeros(2, 0, dtype=torch.long),
        x_var=torch.tensor([0.04, 0.09, 0.01]).double(),
    )


def test_equation_13_agrees_with_the_closed_form_of_a_linear_network():
    # 20,000 nodes with 50 masks each are a million masks of the same neuron.
    pred = diagonal(Neuron().double(), reference_graph(20_000), samples=50, task="regression")
    correction = 50 / 49  # equation 13 divides by T
    assert pred.aleatoric.mean().item() == pytest.approx(0.447222, rel=2e-3)
    assert pred.epistemic.mean().item() * correction == pytest.approx(0.565556, rel=5e-3)
    assert pred.mean.mean().item() == pytest.approx(-0.7, abs=5e-3)


def test_equation_13_mask_by_mask():
    """The two sums of the equation, from masks applied by hand."""
    from varigraph.prediction.masks import Site, draw_masks

    graph = reference_graph()
    masks = draw_masks(Site(torch.Size([1, 3]), 0.1), 0, range(40), seed=5).double().numpy()[:, 0]
    weight = np.array([1.0, -2.0, 0.5])
    means = (masks * graph.x.numpy()) @ weight
    variances = (masks**2 * graph.x_var.numpy()) @ weight**2
    pred = diagonal(Neuron().double(), graph, samples=40, seed=5, task="regression")
    assert pred.aleatoric.item() == pytest.approx(variances.mean(), rel=1e-12)
    assert pred.epistemic.item() == pytest.approx(means.var(), rel=1e-12)
    assert pred.mean.item() == pytest.approx(means.mean(), rel=1e-12)
    assert pred.logits.var.item() == pytest.approx(means.var() + variances.mean(), rel=1e-12)


@pytest.mark.parametrize(("task", "ratio"), [("regression", 1.0), ("classification", 0.92)])
def test_the_total_is_that_of_drawn_noise_and_masks(task, ratio):
    """Dropout before one layer is exact; its classes are taken as independent, and 0.92 is left."""
    graph, model = noisy_ring(), made(DroppedThenSummed)
    pred = diagonal(model, graph, samples=2000, task=task)
    with torch.random.fork_rng(), torch.no_grad():
        torch.manual_seed(0)
        model.train()
        noisy = [graph.x + 0.3**0.5 * torch.randn_like(graph.x) for _ in range(8000)]
        runs = torch.stack([model(x, graph.edge_index) for x in noisy])
    runs = runs.softmax(-1) if task == "classification" else runs
    assert float(pred.total.sum() / runs.var(0).sum()) == pytest.approx(ratio, abs=0.03)
    shift = (pred.mean - runs.mean(0)) / runs.std(0)
    assert float(shift.abs().max()) < 0.1


def test_everything_is_on_the_scale_of_probabilities():
    pred = diagonal(made(Functional), noisy_ring(), samples=30)
    assert torch.allclose(pred.mean.sum(1), torch.ones(6).double())
    assert bool((pred.total <= pred.mean * (1 - pred.mean) + 1e-12).all())
    assert bool((pred.aleatoric > 0).all() & (pred.epistemic > 0).all())


def test_without_noise_and_masks_it_is_the_network():
    model, graph = made(Functional), ring()
    pred = diagonal(model, graph, samples=0)
    assert torch.allclose(pred.mean, model(graph.x, graph.edge_index).softmax(-1))
    assert float(pred.total.max()) == 0


def test_a_linear_network_is_exact_up_to_its_first_layer():
    graph = noisy_ring()
    model = made(lambda: gnn.SAGEConv(4, 3))
    pred = diagonal(model, graph, samples=0, task="regression")
    jac = torch.autograd.functional.jacobian(lambda x: model(x, graph.edge_index), graph.x)
    want = jac.flatten(2).square().sum(-1) * 0.3
    assert torch.allclose(pred.total, want.flatten(2).sum(-1) if want.dim() > 2 else want)


# ---- the way it is computed does not matter ----


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_the_answer_does_not_depend_on_the_batch_of_masks(dtype, monkeypatch):
    model, graph = made(Functional, dtype), noisy_ring(dtype=dtype)
    whole = diagonal(model, graph, samples=33)
    monkeypatch.setattr(memory, "NUMBERS_AT_ONCE", {"cpu": 200})
    pieces = diagonal(model, graph, samples=33)
    tolerance = 1e-6 if dtype == torch.float32 else 1e-13
    for name in ("mean", "aleatoric", "epistemic"):
        assert torch.allclose(getattr(whole, name), getattr(pieces, name), atol=tolerance)


def test_the_same_seed_gives_the_same_answer_and_another_does_not():
    model, graph = made(Functional), noisy_ring()
    first, again, other = (diagonal(model, graph, samples=9, seed=s) for s in (3, 3, 4))
    assert torch.equal(first.epistemic, again.epistemic)
    assert not torch.allclose(first.epistemic, other.epistemic)


def test_functional_and_module_dropout_are_the_same_network():
    model, twin = made(Functional), made(WithModules)
    twin.load_state_dict(model.state_dict())
    a, b = (diagonal(m, noisy_ring(), samples=20) for m in (model, twin))
    assert torch.equal(a.total, b.total)


def test_steps_before_the_first_dropout_are_computed_once(monkeypatch):
    calls = []
    rule = LAYERS[gnn.SAGEConv]

    def counted(*args):
        calls.append(1)
        return rule.apply(*args)

    monkeypatch.setitem(LAYERS, gnn.SAGEConv, dataclasses.replace(rule, apply=counted))
    monkeypatch.setattr(memory, "NUMBERS_AT_ONCE", {"cpu": 1})
    diagonal(made(Functional), noisy_ring(), samples=12)
    assert len(calls) == 1


def test_the_model_is_as_before():
    model = made(lambda: gnn.GraphSAGE(4, 8, 2, 3, dropout=0.3, norm="batch_norm"))
    model.train()
    model.convs[0].eval()
    modes = [m.training for m in model.modules()]
    state = {k: v.clone() for k, v in model.state_dict().items()}
    random_before = torch.get_rng_state()
    diagonal(model, noisy_ring(), samples=5)
    assert [m.training for m in model.modules()] == modes
    assert all(torch.equal(v, state[k]) for k, v in model.state_dict().items())
    assert not any("forward" in vars(m) for m in model.modules())
    assert torch.equal(torch.get_rng_state(), random_before)


def test_it_is_as_before_after_an_error_too():
    model = made(Functional)
    with pytest.raises(ModelError):
        diagonal(model, noisy_ring(), forward=lambda m, x, data: "nothing")
    assert not any("forward" in vars(m) or m.training for m in model.modules())


def test_norms_stay_in_evaluation_mode_while_dropout_is_on():
    model = made(lambda: gnn.GCN(4, 8, 2, 3, dropout=0.5, norm="batch_norm"))
    model.norms[0].module.running_mean.fill_(0.7)
    pred = diagonal(model, ring(), samples=2000, task="regression", seed=1)
    inner = model.norms[0].module
    assert inner.running_mean[0].item() == pytest.approx(0.7)
    assert float(pred.epistemic.min()) > 0


# ---- models of every style ----

MODELS = {
    "sage": lambda: gnn.GraphSAGE(4, 8, 2, 3, dropout=0.2),
    "sage max": lambda: gnn.GraphSAGE(4, 8, 2, 3, dropout=0.2, aggr="max"),
    "sage project": lambda: gnn.GraphSAGE(4, 8, 2, 3, dropout=0.2, project=True, normalize=True),
    "gcn": lambda: gnn.GCN(4, 8, 3, 3, dropout=0.2, jk="cat", act="elu"),
    "gcn max": lambda: gnn.GCN(4, 8, 3, 3, dropout=0.2, jk="max", act="gelu"),
    "gin": lambda: gnn.GIN(4, 8, 2, 3, dropout=0.2, norm="layer_norm"),
    "graph norm": lambda: gnn.GCN(4, 8, 2, 3, dropout=0.2, norm="graph_norm", act="silu"),
}


@pytest.mark.parametrize("name", MODELS)
def test_networks_of_torch_geometric_work_unchanged(name):
    model, graph = made(MODELS[name]), noisy_ring()
    pred = diagonal(model, graph, samples=8)
    assert pred.mean.shape == (6, 3)
    assert bool((pred.total > 0).all())
    plain = diagonal(model, ring(), samples=0)
    assert torch.allclose(plain.mean, model(graph.x, graph.edge_index).softmax(-1))


def test_mlp_and_pooling_and_residuals():
    class GraphLevel(nn.Module):
        def __init__(self):
            super().__init__()
            self.conv, self.head = gnn.GraphConv(4, 4), gnn.MLP([12, 8, 2], norm=None, dropout=0.1)

        def forward(self, x, edge_index, batch):
            x = x + self.conv(x, edge_index).tanh()
            pools = gnn.global_mean_pool, gnn.global_add_pool, gnn.global_max_pool
            return self.head(torch.cat([pool(x, batch) for pool in pools], dim=1))

    model, graph = made(GraphLevel), noisy_ring()
    batch = torch.tensor([0, 0, 0, 1, 1, 1])
    forward = lambda m, x, data: m(x, data.edge_index, batch)  # noqa: E731
    pred = diagonal(model, graph, forward=forward, samples=6)
    assert pred.mean.shape == (2, 2)
    plain = diagonal(model, ring(), forward=forward, samples=0)
    assert torch.allclose(plain.mean, model(graph.x, graph.edge_index, batch).softmax(-1))


def test_log_softmax_at_the_end_changes_nothing():
    class LogSoftmax(Functional):
        def forward(self, x, edge_index):
            return F.log_softmax(super().forward(x, edge_index), dim=1)

    a, b = (diagonal(made(kind), noisy_ring(), samples=4) for kind in (Functional, LogSoftmax))
    assert torch.equal(a.mean, b.mean)
    assert torch.equal(a.total, b.total)
    assert torch.equal(a.logits.mean, b.logits.mean)


def test_adjacency_in_any_form():
    model, graph = made(Functional), noisy_ring()
    want = diagonal(model, graph, samples=0)
    graph.edge_index = EdgeIndex(graph.edge_index, sparse_size=(6, 6))
    assert torch.allclose(diagonal(model, graph, samples=0).total, want.total)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        adj_t = to_torch_csr_tensor(graph.edge_index.as_tensor().flip(0), size=(6, 6))
    sparse = Data(x=graph.x, x_var=0.3, adj_t=adj_t)
    assert torch.allclose(diagonal(model, sparse, samples=0).total, want.total)


def test_nodes_restrict_the_answer():
    model, graph = made(Functional), noisy_ring()
    whole = diagonal(model, graph, samples=7)
    picked = diagonal(model, graph, samples=7, nodes=[4, 1])
    assert torch.allclose(picked.total, whole.total[[4, 1]], rtol=1e-12)
    mask = torch.tensor([True, False, False, True, False, False])
    masked = diagonal(model, graph, samples=7, nodes=mask).mean
    assert torch.allclose(masked, whole.mean[mask], rtol=1e-12)


@pytest.mark.parametrize("method", ["diagonal", "covariance", "first-order"])
def test_shares_of_some_nodes_do_not_depend_on_what_others_have(method):
    """Links lead to the first node alone: they are a source for it, and for no other."""
    model, graph = made(Functional), noisy_ring()
    graph.x_var = 3.0
    graph.edge_index = torch.tensor([[1, 2, 3, 4, 5], [0, 0, 0, 0, 0]])
    graph.edge_prob = torch.full((5,), 0.6).double()
    options = {"method": method, "links": "bernoulli", "weights": "closed-form"}
    whole = vg.predict(model, graph, **options)
    picked = vg.predict(model, graph, nodes=[4, 2], **options)
    assert bool(whole.by_source["links"][0].all())
    assert not whole.by_source["links"][1:].any()
    for part, variance in picked.by_source.items():
        assert torch.allclose(variance, whole.by_source[part][[4, 2]], rtol=1e-6, atol=1e-12), part


@pytest.mark.parametrize("shape", [(), (4,), (6, 1), (6, 4)])
def test_noise_of_every_shape(shape):
    graph = ring()
    graph.x_var = torch.full(shape, 0.3).double()
    want = diagonal(made(Functional), noisy_ring(), samples=0)
    assert torch.allclose(diagonal(made(Functional), graph, samples=0).total, want.total)


def test_uncertain_links_add_variance_of_their_own():
    model, graph = made(Functional), ring()
    graph.edge_prob = torch.full((12,), 0.7).double()
    coins = diagonal(model, graph, samples=0)
    weights = diagonal(model, graph, samples=0, links="weight")
    assert float(coins.total.min()) > 0
    assert float(weights.total.max()) == 0  # the paper's term scales variance, and adds none


def test_dropout_is_injected_where_there_is_none():
    model = made(lambda: gnn.GraphSAGE(4, 8, 2, 3))
    with pytest.warns(UserWarning, match="has no dropout"):
        assert float(diagonal(model, noisy_ring(), samples=5).epistemic.max()) == 0
    pred = diagonal(model, noisy_ring(), samples=400, dropout=0.4, task="regression")
    twin = made(lambda: gnn.GraphSAGE(4, 8, 2, 3, dropout=0.4))
    twin.load_state_dict(model.state_dict())
    same = diagonal(twin, noisy_ring(), samples=400, task="regression")
    assert torch.equal(pred.epistemic, same.epistemic)


# ---- errors ----


def errs(kind, match, model=None, graph=None, **options):
    with pytest.raises(kind, match=match):
        diagonal(model or made(Functional), graph or noisy_ring(), **options)


def test_options_that_make_no_sense():
    errs(OptionError, "method='exact'", method="exact")
    errs(OptionError, "task='guess'", task="guess")
    errs(OptionError, "samples=-1", samples=-1)
    errs(OptionError, "seed=-1", seed=-1)
    errs(OptionError, "memory='much'", memory="much")
    errs(OptionError, "dropout=1.5", made(lambda: gnn.GCN(4, 8, 2, 3)), dropout=1.5)
    errs(OptionError, "has its own, of rate 0.4", dropout=0.1)
    graph = noisy_ring()
    graph.edge_prob = torch.ones(12).double()
    errs(OptionError, "links='coin'", graph=graph, links="coin")


def test_nodes_that_are_not_there():
    errs(OptionError, "node 9", nodes=[0, 9])
    errs(OptionError, "mask", nodes=torch.ones(4, dtype=torch.bool))


def test_models_that_do_not_fit():
    errs(ModelError, "is torch.float32, graph.x is torch.float64", made(Functional, torch.float32))
    errs(ModelError, "is a function", lambda x: x)
    errs(ModelError, "is on meta", made(Functional).to("meta"))
    errs(ModelError, "a tuple with 2", forward=lambda m, x, d: (x, x))
    errs(ModelError, "one value per class", made(lambda: gnn.GCNConv(4, 1)), samples=0)


def test_unknown_layers_are_never_skipped():
    errs(MissingRuleError, "LSTM", made(lambda: gnn.GCN(4, 8, 2, 3, jk="lstm")))


def test_randomness_that_no_rule_sees_is_refused():
    class DropsLinks(Functional):
        def forward(self, x, edge_index):
            keep = torch.rand(edge_index.shape[1]) > 0.1 * self.training
            return super().forward(x, edge_index[:, keep])

    errs(ModelError, "random numbers of its own", made(DropsLinks))


def test_link_probabilities_that_nobody_uses_are_refused():
    graph = noisy_ring()
    graph.edge_prob = torch.full((12,), 0.5).double()
    model = made(lambda: gnn.MLP([4, 8, 3], norm=None))
    errs(ModelError, "no message-passing layer", model, graph, samples=0,
         forward=lambda m, x, d: m(x))  # fmt: skip


def test_weights_that_are_not_numbers():
    model = made(Functional)
    with torch.no_grad():
        model.second.bias[0] = float("nan")
    errs(ModelError, "not a finite number", model)


def test_messages_changed_by_a_hook_are_followed():
    model, graph = made(Functional), ring()
    model.first.register_message_forward_hook(lambda module, inputs, out: 2 * out)
    graph.x_var = 1e-12
    for method in ("first-order", "covariance", "diagonal"):
        found = vg.predict(model, graph, method=method, samples=0, task="regression")
        assert torch.allclose(found.mean, model(graph.x, graph.edge_index), atol=1e-9)


def test_bad_graphs_are_refused_before_anything_runs():
    graph = noisy_ring()
    graph.x_var = -1.0
    errs(GraphError, "x_var", graph=graph)


@pytest.mark.parametrize(("method", "steps"), [("diagonal", 8), ("sampled", 8), ("first-order", 6)])
def test_progress_goes_up_to_all_steps(method, steps):
    told = []
    model, graph = made(Functional), noisy_ring()
    vg.predict(
        model,
        graph,
        method=method,
        samples=8,
        memory="64MiB",
        progress=lambda done, total: told.append((done, total)),
    )
    assert told == sorted(told)
    assert told[-1] == (steps, steps)


@pytest.mark.parametrize("method", ["auto", "first-order", "covariance", "diagonal"])
def test_warnings_point_at_the_line_that_asked(method):
    with pytest.warns(UserWarning, match="has no dropout") as caught:
        vg.predict(made(lambda: gnn.GraphSAGE(4, 8, 2, 3)), noisy_ring(), method=method)
    assert caught[0].filename == __file__
