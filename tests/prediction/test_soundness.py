"""Answers that were once silently wrong, or not there at all."""

import pytest
import torch
from torch import nn
from torch_geometric.data import Data
from torch_geometric.nn import GAT, GCN, GraphSAGE

import varigraph as vg
from varigraph.errors import ModelError, OptionError, VarigraphError
from varigraph.prediction.first_order import noise_root
from varigraph.sparse import without_notices

CLOSED = ["first-order", "covariance", "diagonal"]
METHODS = ["auto", *CLOSED, "sampled"]
SMOOTH = ["tanh", "elu", "celu", "selu", "gelu", "silu", "sigmoid", "softplus"]


def two_pairs(dtype=torch.float32) -> Data:
    """Two pairs of nodes, of which the first is exact."""
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(4, 3, generator=generator, dtype=dtype)
    graph = Data(x=x, edge_index=torch.tensor([[0, 1, 2, 3], [1, 0, 3, 2]]))
    graph.x_var = torch.tensor([[0.0], [0.0], [0.01], [0.01]], dtype=dtype)
    return graph


def path(nodes: int = 6) -> Data:
    generator = torch.Generator().manual_seed(0)
    first = torch.arange(nodes - 1)
    edges = torch.cat([torch.stack([first, first + 1]), torch.stack([first + 1, first])], 1)
    return Data(x=torch.randn(nodes, 3, generator=generator), edge_index=edges, x_var=0.01)


@pytest.mark.parametrize("task", ["regression", "classification"])
@pytest.mark.parametrize("method", CLOSED)
@pytest.mark.parametrize("act", SMOOTH)
def test_a_smooth_activation_of_an_exact_value_is_exact(act, method, task):
    torch.manual_seed(0)
    model = GCN(3, 8, 2, 1 if task == "regression" else 3, act=act).eval()
    pred = vg.predict(model, two_pairs(), method=method, task=task, samples=0)
    assert bool(pred.total.isfinite().all())
    assert float(pred.total[:2].abs().max()) == 0
    assert float(pred.total[2:].min()) > 0


@pytest.mark.parametrize("method", METHODS)
def test_a_second_dropout_is_refused(method):
    model = GraphSAGE(3, 8, 2, 3, dropout=0.5).eval()
    with pytest.raises(OptionError, match=r"dropout=0.3 .* has its own, of rate 0.5"):
        vg.predict(model, path(), dropout=0.3, method=method)


class Ending(nn.Module):
    """A GCN and what comes after its logits."""

    def __init__(self, end: nn.Module) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.body, self.end = GCN(3, 8, 2, 4, act="tanh"), end

    def forward(self, x, edge_index):
        return self.end(self.body(x, edge_index))


@pytest.mark.parametrize("end", [nn.Softmax(-1), nn.LogSoftmax(-1)], ids=["softmax", "log_softmax"])
@pytest.mark.parametrize("method", METHODS)
def test_a_last_softmax_changes_nothing(method, end):
    graph, nodes = path(), torch.tensor([1, 4])
    options = {"method": method, "samples": 10, "sources": ["features"], "nodes": nodes}
    plain = vg.predict(Ending(nn.Identity()).eval(), graph, **options)
    ended = vg.predict(Ending(end).eval(), graph, **options)
    assert ended.method == plain.method
    torch.testing.assert_close(ended.mean, plain.mean)
    torch.testing.assert_close(ended.total, plain.total)


@pytest.mark.parametrize("method", METHODS)
def test_a_last_softmax_is_no_regression(method):
    with pytest.raises(ModelError, match="ends in a softmax"):
        vg.predict(Ending(nn.Softmax(-1)).eval(), path(), method=method, task="regression")


def test_rows_may_be_picked_after_the_last_softmax():
    class Picked(Ending):
        def forward(self, x, edge_index):
            return super().forward(x, edge_index)[[4, 1]]

    graph = path()
    options = {"method": "first-order", "sources": ["features"]}
    picked = vg.predict(Picked(nn.LogSoftmax(-1)).eval(), graph, **options)
    whole = vg.predict(Ending(nn.Identity()).eval(), graph, **options)
    torch.testing.assert_close(picked.total, whole.total[[4, 1]])


def test_the_largest_message_of_indices_of_any_width():
    torch.manual_seed(0)
    model, graph = GraphSAGE(3, 8, 2, 3, aggr="max").eval(), path()
    closed = vg.predict(model, graph, method="diagonal", samples=0)
    drawn = vg.predict(model, graph, method="sampled", samples=2000, sources=["features"])
    ratio = closed.total.sum() / drawn.total.sum()
    assert 0.3 < float(ratio) < 3


# ---- small variances beside large ones ----


class Wide(nn.Module):
    """A network with more hidden units than features, whose outputs can be put in other units."""

    def __init__(self, outputs: int, act: str = "relu", **kwargs) -> None:
        super().__init__()
        torch.manual_seed(3)
        self.body = GCN(kwargs.pop("features", 3), 12, 2, outputs, act=act, **kwargs).double()
        self.units = torch.ones(outputs, dtype=torch.float64)

    def forward(self, x, edge_index):
        return self.body(x, edge_index) * self.units


def test_a_quiet_node_keeps_its_variance_beside_a_loud_one(monkeypatch):
    """Each node moves a hidden unit of its own, and the answer follows one of them far more."""

    class Gated(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.last = nn.Linear(2, 1, bias=False)
            self.last.weight.data = torch.tensor([[10.0, 0.1]])

        def forward(self, x, edge_index):
            return self.last(torch.relu(x))

    monkeypatch.setattr(noise_root, "SAMPLE", 1)  # fewer than there are nodes: a short cut is taken
    x = torch.tensor([[50.0, -50.0], [-50.0, 50.0]])
    graph = Data(x=x, edge_index=torch.empty(2, 0, dtype=torch.long), x_var=1.0)
    pred = vg.predict(Gated(), graph, method="first-order", task="regression", samples=0)
    torch.testing.assert_close(pred.total, torch.tensor([[100.0], [0.01]]), rtol=1e-4, atol=0)


@pytest.mark.parametrize("method", ["first-order", "covariance", "diagonal", "sampled"])
@pytest.mark.parametrize("act", ["relu", "tanh"])
def test_an_output_in_other_units_has_its_variance_in_these_units(act, method, monkeypatch):
    monkeypatch.setattr(noise_root, "SAMPLE", 3)
    graph, model = path().clone(), Wide(3, act).eval()
    graph.x, graph.x_var = graph.x.double(), torch.full((6, 1), 0.05).double()
    options = {"method": method, "task": "regression", "sources": ["features"]}
    plain = vg.predict(model, graph, **options)
    model.units = torch.tensor([1.0, 1e-6, 1e3], dtype=torch.float64)
    scaled = vg.predict(model, graph, **options)
    torch.testing.assert_close(scaled.total, plain.total * model.units**2, rtol=1e-6, atol=0)
    torch.testing.assert_close(scaled.mean, plain.mean * model.units, rtol=1e-6, atol=0)


def test_no_output_of_any_node_loses_more_than_a_little(monkeypatch):
    """A sample of one node decides the rank; all the others are served all the same."""
    monkeypatch.setattr(noise_root, "SAMPLE", 1)
    generator = torch.Generator().manual_seed(1)
    graph = Data(
        x=torch.randn(40, 20, generator=generator, dtype=torch.float64),
        edge_index=torch.randint(0, 40, (2, 90), generator=generator),
    )
    graph.x_var = (10.0 ** torch.linspace(-6, 2, 20)).double()
    model = Wide(3, "tanh", features=20).eval()
    options = {"method": "first-order", "task": "regression", "samples": 0}
    found = vg.predict(model, graph, **options).total
    monkeypatch.setattr(noise_root, "LEFT_OUT", 0.0)
    whole = vg.predict(model, graph, **options).total
    torch.testing.assert_close(found, whole, rtol=1e-2, atol=0)


@pytest.mark.parametrize("method", ["first-order", "covariance", "diagonal"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_tiny_noise_gives_class_probabilities_a_tiny_variance(method, dtype):
    graph, model = path(), Ending(nn.Identity()).to(dtype).eval()
    graph.x = graph.x.to(dtype)
    small, tiny = (
        vg.predict(model, Data(**{**graph.to_dict(), "x_var": var}), method=method, samples=0)
        for var in (1e-8, 1e-30)
    )
    torch.testing.assert_close(tiny.total * 1e22, small.total, rtol=2e-3, atol=0)
    torch.testing.assert_close(tiny.mean, model(graph.x, graph.edge_index).softmax(-1))


def test_a_sure_class_has_the_variance_of_the_others():
    """Of two classes one has as much variance as the other, also where it is close to 1."""

    class Sure(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.lin = nn.Linear(1, 2)
            self.lin.weight.data, self.lin.bias.data = (
                torch.tensor([[1.0], [-1.0]]),
                torch.tensor([9.0, -9.0]),
            )

        def forward(self, x, edge_index):
            return self.lin(torch.relu(x + 50) - 50)

    graph = Data(x=torch.zeros(2, 1), edge_index=torch.empty(2, 0, dtype=torch.long), x_var=0.04)
    pred = vg.predict(Sure(), graph, method="first-order", samples=0)
    torch.testing.assert_close(pred.total[:, 0], pred.total[:, 1], rtol=1e-3, atol=0)
    # log-normal far from the middle: y = exp(-(18 + 2 e)), with e of variance 0.04
    spread = 4 * 0.04
    want = torch.exp(torch.tensor(-36.0 + spread)) * (torch.exp(torch.tensor(spread)) - 1)
    torch.testing.assert_close(pred.total[0, 0], want, rtol=2e-2, atol=0)


# ---- what is approximate says so ----


@pytest.mark.parametrize("norm", ["LayerNorm", "GraphNorm"])
@pytest.mark.parametrize("method", CLOSED)
def test_approximate_rules_are_named(method, norm):
    model = GCN(3, 8, 2, 3, norm=norm).eval()
    pred = vg.predict(model, path(), method=method, samples=0)
    assert pred.method == f"{method} (approximate {norm})"
    assert pred.approximate == (norm,)
    assert vg.predict(GCN(3, 8, 2, 3).eval(), path(), method=method, samples=0).approximate == ()


def test_a_length_frozen_inside_of_a_layer_is_named_too():
    from torch_geometric.nn import SAGEConv

    pred = vg.predict(SAGEConv(3, 4, normalize=True), path(), method="diagonal", samples=0)
    assert pred.approximate == ("normalize",)


def test_auto_draws_where_an_approximate_rule_is_off():
    torch.manual_seed(0)
    model = GCN(3, 8, 2, 3, norm="GraphNorm").eval()
    pred = vg.predict(model, path(), samples=500, sources=["features"])
    assert pred.method.startswith("sampled: the rule of GraphNorm is approximate, and off here")
    brute = vg.predict(model, path(), method="sampled", samples=500, sources=["features"])
    torch.testing.assert_close(pred.total, brute.total)


def test_auto_keeps_an_approximate_rule_that_agrees_with_draws():
    """A layer norm over very many features hardly notices the noise of any of them."""

    class Wide(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            torch.manual_seed(0)
            self.norm, self.lin = nn.LayerNorm(800), nn.Linear(800, 3)

        def forward(self, x, edge_index):
            return self.lin(torch.relu(self.norm(x)))

    x = torch.randn(60, 800, generator=torch.Generator().manual_seed(0))
    graph = Data(x=x, edge_index=torch.empty(2, 0, dtype=torch.long), x_var=0.01)
    pred = vg.predict(Wide().eval(), graph, samples=0)
    assert pred.method.startswith("first-order (approximate LayerNorm): ")


def test_a_forward_that_ignores_its_features_is_refused():
    graph, model = path(), GCN(3, 8, 2, 3).eval()

    def own(model, x, data):
        return model(data.x[: len(x)], data.edge_index)

    for method in METHODS:
        with pytest.raises(VarigraphError, match=r"use the x that they are given, not data\.x"):
            vg.predict(model, graph, method=method, forward=own, sources=["features"])


# ---- graphs with hardly any links ----


@pytest.mark.parametrize("links", [0, 1])
@pytest.mark.parametrize("method", METHODS)
def test_graphs_of_no_or_one_uncertain_link(method, links):
    class Mixed(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            torch.manual_seed(0)
            self.one, self.two = GraphSAGE(3, 4, 2, 4), GCN(4, 4, 1, 2)

        def forward(self, x, edge_index):
            return self.two(torch.tanh(self.one(x, edge_index)), edge_index)

    graph = path(3)
    graph.edge_index = torch.tensor([[0], [1]])[:, :links]
    graph.edge_prob = torch.full((links,), 0.5)
    asked = {"sources": ["features", "links"], "links": "bernoulli"}
    pred = vg.predict(Mixed().eval(), graph, method=method, **asked)
    assert bool(pred.total.isfinite().all())
    assert float(pred.total.min()) > 0


def test_a_certain_self_loop_is_no_coin():
    from torch_geometric.nn import GIN

    graph = path(2)
    graph.edge_index = torch.tensor([[0, 1, 1], [1, 0, 1]])
    torch.manual_seed(2)
    model = GIN(3, 4, 2, 2).eval()
    plain = vg.predict(model, graph, samples=0)
    graph.edge_prob = torch.ones(3)
    certain = vg.predict(model, graph, samples=0)
    torch.testing.assert_close(certain.total, plain.total)
    graph.edge_prob = torch.tensor([1.0, 1.0, 0.5])
    pred = vg.predict(model, graph, samples=0, links="bernoulli")
    drawn = vg.predict(model, graph, method="sampled", samples=4000, links="bernoulli")
    torch.testing.assert_close(pred.logits.var, drawn.logits.var, rtol=0.15, atol=0)


def test_parts_of_a_regression_add_up_to_its_variance():
    graph, model = path(), Ending(nn.Identity()).eval()
    graph.x_var, graph.edge_prob = 1e4, torch.full((10,), 0.6)
    asked = {"task": "regression", "samples": 0, "links": "bernoulli"}
    for method in ["first-order", "covariance"]:
        pred = vg.predict(model, graph, method=method, **asked)
        torch.testing.assert_close(pred.total, pred.logits.var)
        assert all(float(part.min()) >= 0 for part in pred.by_source.values())


@pytest.mark.parametrize("normalised", ["gcn", "sgc", "appnp"])
def test_a_loop_in_a_sparse_matrix_is_what_it_is_to_the_layer(normalised):
    from torch_geometric.nn import APPNP, GCNConv, SGConv

    torch.manual_seed(0)
    layer = {"gcn": GCNConv(3, 2), "sgc": SGConv(3, 2, K=2), "appnp": APPNP(2, 0.1)}[normalised]
    dense = torch.tensor([[0.0, 4.0, 0.0], [4.0, 0.0, 1.0], [0.0, 1.0, 2.0]])  # node 2 has a loop
    with without_notices():
        graph = Data(x=torch.randn(3, 3), adj_t=dense.to_sparse_csr(), x_var=1e-12)
        own = layer(graph.x, graph.adj_t).detach()
    pred = vg.predict(layer, graph, task="regression", method="first-order", samples=0)
    torch.testing.assert_close(pred.mean, own)


def test_outputs_that_follow_from_each_other_are_no_less_exact_in_single_precision():
    """One noisy feature: all logits move together, and rounding is all that is beside that."""
    from torch_geometric.nn import GIN

    torch.manual_seed(0)
    model, graph = GIN(2, 5, 3, 5).eval(), path(5)
    graph.x, graph.x_var = graph.x[:, :2], torch.tensor([0.0, 100.0])
    options = {"method": "first-order", "samples": 0}
    single = vg.predict(model, graph, **options)
    graph.x, graph.x_var = graph.x.double(), graph.x_var.double()
    double = vg.predict(model.double(), graph, **options)
    torch.testing.assert_close(single.logits.var.double(), double.logits.var, rtol=2e-2, atol=0)
    torch.testing.assert_close(single.mean.double(), double.mean, rtol=0, atol=2e-3)


def test_parts_of_a_node_do_not_depend_on_the_others_asked_for():
    torch.manual_seed(0)
    model, graph = GCN(3, 4, 2, 2, dropout=0.3).eval(), path(4)
    graph.edge_index = torch.tensor([[1, 2, 3], [0, 0, 0]])
    graph.x_var, graph.edge_prob = 4.0, torch.tensor([1.0, 0.3, 1.0])
    asked = {"method": "covariance", "links": "bernoulli"}
    whole = vg.predict(model, graph, **asked)
    alone = vg.predict(model, graph, nodes=[3], **asked)  # to which no coin leads
    for part, variance in whole.by_source.items():
        torch.testing.assert_close(alone.by_source[part], variance[[3]])


def test_attention_behind_masks_that_are_run_side_by_side():
    """Weights of links differ from mask to mask: without noise it is the mean of plain runs."""
    torch.manual_seed(0)
    model = GAT(3, 4, num_layers=2, out_channels=2, heads=2, dropout=0.4).double().eval()
    graph = path()
    graph.x = graph.x.double()
    options = {"task": "regression", "sources": ["weights"], "samples": 3000}
    pred = vg.predict(model, graph, method="diagonal", **options)
    with torch.no_grad():
        drawn = torch.stack([model.train()(graph.x, graph.edge_index) for _ in range(3000)])
    error = (2 * drawn.var(0) / len(drawn)).sqrt()
    assert bool(((pred.mean - drawn.mean(0)).abs() < 5 * error).all())
    assert torch.allclose(pred.total, drawn.var(0), rtol=0.25)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("links", ["removed", "bernoulli"])
def test_features_stay_as_they_are_whatever_a_network_writes(method, links):
    graph, before = path(), path().x
    graph.edge_prob = torch.full((graph.num_edges,), 0.7)
    torch.manual_seed(0)
    model = GCN(3, 4, 2, 2).eval()
    options = {"samples": 8 if method == "sampled" else 0, "links": links}
    forward = lambda model, x, data: model(x.relu_(), data.edge_index)  # noqa: E731
    vg.predict(model, graph, method=method, forward=forward, **options)
    assert torch.equal(graph.x, before)


def test_attention_where_nothing_is_noisy():
    """No response has anywhere to end."""
    torch.manual_seed(0)
    model, graph = GAT(3, 4, num_layers=2, out_channels=2).eval(), path(2)
    graph = Data(x=graph.x, edge_index=graph.edge_index[:, :0])
    with pytest.warns(UserWarning, match="nothing is uncertain"):
        pred = vg.predict(model, graph, samples=0)
    assert not pred.total.any()
