"""Yes or no, and several labels: sigmoids of logits, looked through where a model ends in them."""

import json
import re

import numpy as np
import pytest
import torch
import torch_geometric.nn as gnn
from torch import nn
from torch.nn import functional as F

import varigraph as vg
from prediction.networks import made, noisy_ring
from varigraph.errors import ModelError
from varigraph.prediction.logits import Bent, CorrelatedLogits
from varigraph.prediction.probabilities import label_probabilities

pytestmark = pytest.mark.filterwarnings("ignore:the network has no dropout")
PARTS = ("features", "links", "weights", "interactions")
CLOSED = ("first-order", "covariance", "diagonal")


class Labels(nn.Module):
    """Logits of some labels, or what a last step makes of them."""

    def __init__(self, labels=3, last=None, rate=0.0):
        super().__init__()
        self.first, self.second = gnn.SAGEConv(4, 8), gnn.SAGEConv(8, labels)
        self.last, self.rate = last, rate

    def forward(self, x, edge_index):
        h = F.dropout(self.first(x, edge_index).relu(), self.rate, training=self.training)
        h = 3 * self.second(h, edge_index)
        return h if self.last is None else self.last(h)


def uncertain_ring(**kwargs):
    graph = noisy_ring(**kwargs)
    graph.edge_prob = torch.full((graph.num_edges,), 0.8, dtype=graph.x.dtype)
    return graph


def brute_force(model, graph, draws=20_000):
    """Mean and variance of sigmoids over noisy features: plain torch, nothing of ours."""
    generator = torch.Generator().manual_seed(3)
    noise = torch.randn(draws, *graph.x.shape, generator=generator, dtype=torch.float64)
    with torch.no_grad():
        runs = torch.vmap(model, in_dims=(0, None))(
            graph.x + graph.x_var**0.5 * noise, graph.edge_index
        )
    drawn = torch.special.expit(runs)
    return drawn.mean(0), drawn.var(0)


@pytest.mark.parametrize(("task", "labels"), [("binary", 1), ("multilabel", 3)])
def test_closed_form_agrees_with_brute_force(task, labels):
    model, graph = made(lambda: Labels(labels)), noisy_ring()
    graph.x_var = 0.03  # little enough for the first order of the logits
    mean, var = brute_force(model, graph)
    pred = vg.predict(model, graph, method="first-order", task=task, samples=0)
    assert pred.mean.shape == (6, labels)
    assert pred.task == task
    assert (pred.mean - mean).abs().max() < 0.004
    assert float(pred.total.sum() / var.sum()) == pytest.approx(1, abs=0.03)
    assert torch.equal(pred.total, sum(pred.by_source.values()))


@pytest.mark.parametrize(("task", "labels"), [("binary", 1), ("multilabel", 3)])
def test_sampled_agrees_with_brute_force(task, labels):
    model, graph = made(lambda: Labels(labels)), noisy_ring()
    mean, var = brute_force(model, graph)
    pred = vg.predict(model, graph, method="sampled", task=task, samples=4000)
    error = pred.std_error
    assert ((pred.mean - mean).abs() < 4.5 * (error.mean**2 + var / 20_000).sqrt()).all()
    assert ((pred.total - var).abs() < 4.5 * error.total + 0.05 * var).all()


def by_quadrature(mean, var, bend=0.0):
    """Moments of the sigmoid of mu + s u + k (u^2 - 1) / 2, by a fine grid."""
    u = np.linspace(-10, 10, 20_001)
    weight = np.exp(-(u**2) / 2)
    z = mean[..., None] + np.sqrt(var)[..., None] * u + bend / 2 * (u**2 - 1)
    drawn, weight = 1 / (1 + np.exp(-z)), weight / weight.sum()
    first = (drawn * weight).sum(-1)
    return first, ((drawn - first[..., None]) ** 2 * weight).sum(-1)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("scale", [1e-7, 1e-3, 0.3, 4.0])
def test_probabilities_of_labels_agree_with_integration(scale, dtype):
    mean = torch.linspace(-12, 12, 25, dtype=dtype).view(5, 5)
    noise = torch.randn(5, 5, 5, generator=torch.Generator().manual_seed(0), dtype=dtype)
    share = scale * (noise @ noise.mT)
    none = torch.zeros_like(share)
    logits = CorrelatedLogits(mean, {**dict.fromkeys(PARTS, none), "features": share})
    found, parts = label_probabilities(logits)
    want, want_var = by_quadrature(
        mean.double().numpy(), share.diagonal(dim1=1, dim2=2).double().numpy()
    )
    np.testing.assert_allclose(found, want, rtol=1e-5)
    np.testing.assert_allclose(parts["features"], want_var, rtol=1e-4)


def test_a_bent_logit_agrees_with_integration():
    mean = torch.linspace(-2, 2, 5, dtype=torch.float64)[:, None]
    straight = torch.full((5, 1, 1), 1.5, dtype=torch.float64)
    curvature = torch.full((5, 1, 1, 1), 0.4, dtype=torch.float64)  # by z: k = 0.4 s^2 by u
    bent = Bent.of(straight, curvature * straight[..., None] ** 2, part="features")
    shares = {**dict.fromkeys(PARTS, torch.zeros_like(straight))}
    shares["features"] = straight + bent.covariance
    found, parts = label_probabilities(CorrelatedLogits(mean, shares, bent))
    k = float(bent.white[0, 0, 0])
    assert abs(k) > 0.1
    want, want_var = by_quadrature(mean[:, 0].numpy(), np.full(5, 1.5), bend=k)
    np.testing.assert_allclose(found[:, 0], want, atol=1e-3)
    np.testing.assert_allclose(parts["features"][:, 0], want_var, rtol=1e-2)


def test_shares_of_several_sources_add_up():
    graph, model = uncertain_ring(), made(lambda: Labels(3, rate=0.4))
    for method in (*CLOSED, "sampled"):
        pred = vg.predict(
            model, graph, method=method, task="multilabel", samples=60, links="bernoulli"
        )
        assert torch.allclose(pred.total, sum(pred.by_source.values()))
        assert all(float(pred.by_source[part].sum()) > 0 for part in PARTS[:3])
        assert ((pred.mean > 0) & (pred.mean < 1)).all()
        assert (pred.total <= pred.mean * (1 - pred.mean) * 1.2).all()


ENDS = {
    "function": torch.sigmoid,
    "module": nn.Sigmoid(),
    "method": lambda h: h.sigmoid(),
    "in place": lambda h: h.sigmoid_(),
    "then picked": lambda h: h.sigmoid()[torch.arange(6)],
    "expit": torch.special.expit,
}


@pytest.mark.parametrize("end", ENDS)
@pytest.mark.parametrize("method", [*CLOSED, "sampled", "auto"])
def test_a_last_sigmoid_is_looked_through(method, end):
    if end == "expit" and method in CLOSED:
        pytest.skip("a spelling without a rule: auto samples it")
    graph = noisy_ring()
    plain, squashed = made(lambda: Labels(3)), made(lambda: Labels(3, last=ENDS[end]))
    ask = {"method": "sampled" if end == "expit" else method, "task": "multilabel", "samples": 0}
    ask["samples"] = 50 if ask["method"] == "sampled" else 0
    one, two = vg.predict(plain, graph, **ask), vg.predict(squashed, graph, **ask)
    assert torch.allclose(one.mean, two.mean)
    assert torch.allclose(one.total, two.total)
    assert torch.allclose(one.logits.mean, two.logits.mean)


@pytest.mark.parametrize("method", ["auto", "sampled"])
@pytest.mark.parametrize("end", [lambda h: h.squeeze(-1), lambda h: h.view(-1).sigmoid(),
                                 lambda h: h.sigmoid().flatten()])  # fmt: skip
def test_one_number_per_node_is_a_column(end, method):
    graph, ask = noisy_ring(), {"task": "binary", "samples": 60}
    want = vg.predict(made(lambda: Labels(1)), graph, method="sampled", **ask)
    found = vg.predict(made(lambda: Labels(1, last=end)), graph, method=method, **ask)
    assert found.mean.shape == (6, 1)
    assert (found.mean - want.mean).abs().max() < 0.05
    if method == "sampled":
        assert torch.allclose(found.total, want.total)


def test_a_sigmoid_inside_of_a_network_is_none_at_its_end():
    class Gate(Labels):
        def forward(self, x, edge_index):
            h = self.first(x, edge_index)
            return self.second(h * torch.sigmoid(h), edge_index)

    graph, model = noisy_ring(), made(Gate)
    runs = vg.predict(model, graph, method="sampled", samples=3000)
    closed = vg.predict(model, graph, method="first-order", samples=0)
    assert float(closed.logits.var.sum() / runs.logits.var.sum()) == pytest.approx(1, abs=0.1)


def test_a_result_changed_in_place_is_no_last_sigmoid():
    def halved(h):
        return h.sigmoid().mul_(0.5).sub_(3)

    model, graph = made(lambda: Labels(3, last=halved)), noisy_ring()
    with torch.no_grad():
        plain = model(graph.x, graph.edge_index)
    pred = vg.predict(model, graph, method="sampled", task="regression", samples=50)
    assert torch.allclose(pred.logits.mean, plain, atol=0.3)
    pred = vg.predict(model, graph, method="sampled", task="multilabel", samples=50)
    assert torch.allclose(pred.logits.mean, plain, atol=0.3)


def test_regression_takes_the_result_of_a_last_sigmoid_itself():
    graph, model = noisy_ring(), made(lambda: Labels(2, last=torch.sigmoid))
    for method in ("first-order", "sampled"):
        pred = vg.predict(model, graph, method=method, task="regression", samples=100)
        assert ((pred.mean > 0) & (pred.mean < 1)).all()


def chances(h):  # neither softmax nor sigmoid by name
    return 1 / (1 + torch.exp(-h))


BY_RULE = [
    (torch.sigmoid, 3, "classification", 'task="multilabel"'),
    (lambda h: h.softmax(-1), 3, "multilabel", 'task="classification"'),
    (lambda h: h.log_softmax(-1), 3, "multilabel", 'task="classification"'),
    (lambda h: h.softmax(-1), 2, "binary", 'task="classification"'),
    (None, 1, "classification", 'task="binary"'),
    (None, 1, "classification", 'task="regression"'),
    (None, 2, "binary", 'task="multilabel"'),
]


@pytest.mark.parametrize(("last", "labels", "task", "remedy"), BY_RULE)
@pytest.mark.parametrize("method", [*CLOSED, "sampled", "auto"])
def test_what_is_not_of_the_task_is_asked_about(method, last, labels, task, remedy):
    model = made(lambda: Labels(labels, last=last))
    with pytest.raises(ModelError) as raised:
        vg.predict(model, noisy_ring(), method=method, task=task, samples=20)
    assert remedy in str(raised.value)


@pytest.mark.parametrize(
    ("task", "labels", "remedy"),
    [("classification", 3, "multilabel"), ("multilabel", 3, "logit"), ("binary", 1, "sigmoid")],
)
def test_numbers_that_are_probabilities_are_asked_about(task, labels, remedy):
    graph = noisy_ring(nodes=40)
    model = made(lambda: Labels(labels, last=chances))
    for method in ("sampled", "auto"):
        with pytest.raises(ModelError, match=remedy):
            vg.predict(model, graph, method=method, task=task, samples=20)


def test_the_remedies_for_probabilities_work():
    graph, model = noisy_ring(nodes=40), made(lambda: Labels(1, last=chances))
    want = vg.predict(made(lambda: Labels(1)), graph, task="binary", method="sampled")
    found = vg.predict(
        model,
        graph,
        task="binary",
        method="sampled",
        forward=lambda model, x, data: model(x, data.edge_index).logit(),
    )
    assert torch.allclose(want.mean, found.mean, atol=1e-6)
    small = made(lambda: Labels(1, last=lambda h: 0.4 + 0.01 * h.tanh()))
    logits = vg.predict(
        small,
        graph,
        task="binary",
        method="sampled",
        forward=lambda model, x, data: model(x, data.edge_index).sigmoid(),
    )
    assert (logits.mean - torch.sigmoid(torch.tensor(0.4))).abs().max() < 0.01


def test_attribution_of_a_label_is_its_slope():
    """Under noise so small that nothing bends."""
    graph, model = noisy_ring(), made(lambda: Labels(3))
    graph.x_var = 1e-8
    found = vg.attribute(model, graph, node=2, output=1, task="multilabel", samples=0)
    x = graph.x.clone().requires_grad_()
    number = model(x, graph.edge_index)[2, 1].sigmoid()
    (slope,) = torch.autograd.grad(number, x)
    number = number.detach()
    assert found.value == pytest.approx(float(number), rel=1e-5)
    assert found.variance == pytest.approx(float(1e-8 * slope.square().sum()), rel=1e-3)
    assert "probability of class 1" in str(found)
    yes = vg.attribute(made(lambda: Labels(1)), graph, node=2, task="binary")
    assert "probability of class yes" in str(yes)


@pytest.mark.parametrize(("task", "labels"), [("binary", 1), ("multilabel", 3)])
def test_an_audit_knows_the_tasks(task, labels):
    found = vg.audit(made(lambda: Labels(labels)), noisy_ring(), task=task, samples=2000)
    assert "of the probabilities" in str(found)
    assert found.rows[0].answer.median == pytest.approx(1, abs=0.1)


@pytest.mark.parametrize(("task", "labels"), [("binary", 1), ("multilabel", 3)])
def test_a_page_shows_the_tasks(task, labels, tmp_path):
    graph, model = noisy_ring(), made(lambda: Labels(labels))
    graph.y = torch.arange(6) % 2 if task == "binary" else torch.ones(6, labels)
    pred = vg.predict(model, graph, task=task)
    page = vg.report(pred, graph, model=model, path=tmp_path / "page.html", explain=2)
    written = page.read_text()
    shown = json.loads(re.search(r'id="content"[^>]*>(.*?)</script>', written, re.S).group(1))
    assert shown["outputs"] == (
        ["no", "yes"] if task == "binary" else [f"label {k}" for k in range(3)]
    )
    assert shown["task"] == ("classification" if task == "binary" else "regression")
    chance = torch.tensor(shown["nodes"]["mean"]).view(6, -1)[:, -1]
    assert torch.allclose(chance.double(), pred.mean[:, -1], atol=1e-3)
