"""Class probabilities of few values, skewed or heavy-tailed: by default the variance of them all.

The truth goes through every outcome of coins or masks, and imports nothing that it judges.
"""

import itertools

import pytest
import torch
import torch_geometric.nn as gnn
from torch import nn

import varigraph as vg
from prediction.test_auto_links import NODES, PAIRS, PROB, Stack, by_matrices, graph

#: Standard errors that an answer may be off by.
ERRORS = 5


def sharp(make):
    """Two layers that a link may turn from one class to the other."""
    torch.manual_seed(2)
    model = Stack(make).double().eval()
    with torch.no_grad():
        model.last.lin_rel.weight.mul_(2)
        model.last.lin_root.weight.mul_(2)
    return model


def all_outcomes(model, prob, reading):
    """Mean and variance of the softmax over all outcomes of the coins, by dense matrices."""
    whole, values, chances = None, [], []
    for shown in itertools.product([1, 0], repeat=len(prob)):
        coins = torch.tensor(shown, dtype=torch.double)
        links = torch.zeros(NODES, NODES, dtype=torch.double)
        links[PAIRS[0], PAIRS[1]] = links[PAIRS[1], PAIRS[0]] = coins
        whole = links.sum(1) if whole is None else whole
        degree = links.sum(1) if reading == "removed" else whole
        with torch.no_grad():
            values.append(by_matrices(model, graph().x, links, degree).softmax(1))
        chances.append(torch.where(coins > 0, prob, 1 - prob).prod())
    values, chances = torch.stack(values), torch.stack(chances)[:, None, None]
    mean = (chances * values).sum(0)
    return mean, (chances * (values - mean).square()).sum(0)


@pytest.mark.parametrize("reading", ["removed", "bernoulli"])
@pytest.mark.parametrize("prob", [0.8 * torch.ones_like(PROB), 0.95 * torch.ones_like(PROB), PROB],
                         ids=["0.8", "0.95", "mixed"])  # fmt: skip
def test_links_by_default(prob, reading):
    model, data = sharp(gnn.GraphConv), graph()
    data.edge_prob = prob.repeat(2)
    mean, var = all_outcomes(model, prob, reading)
    pred = vg.predict(model, data, links=reading, sources=["links"])
    assert pred.method.startswith("sampled: behind uncertain links")
    assert float(pred.total.sum() / var.sum()) == pytest.approx(1, abs=0.15)
    if float(prob.min()) == 0.95:
        return  # of one node half the variance is in what happens once in thousands of draws
    more = vg.predict(model, data, links=reading, sources=["links"], samples=1010)
    for value, error, want in (
        (more.mean, more.std_error.mean, mean),
        (more.total, more.std_error.total, var),
    ):
        assert bool(((value - want).abs() <= ERRORS * error + 1e-9).all())


def test_the_closed_form_by_name_says_that_it_is_rough():
    model, data = sharp(gnn.GraphConv), graph()
    named = {"method": "first-order", "links": "bernoulli", "sources": ["links"]}
    rough = vg.predict(model, data, **named)
    assert rough.method == "first-order: class probabilities are rough behind uncertain links"
    assert rough.std_error is None
    assert vg.predict(model, data, task="regression", **named).method == "first-order"
    data.edge_prob = torch.ones_like(data.edge_prob)
    assert vg.predict(model, data, **named).method == "first-order"


@pytest.mark.parametrize("method", ["first-order", "auto"])
def test_doubtful_answers_name_approximate_rules_too(method):
    class Normed(nn.Module):
        def __init__(self):
            super().__init__()
            self.conv, self.norm = gnn.GraphConv(3, 4), gnn.LayerNorm(4, mode="node")
            self.out = nn.Linear(4, 2)

        def forward(self, x, edge_index):
            return self.out(self.norm(self.conv(x, edge_index)))

    torch.manual_seed(0)
    options = {"links": "removed", "weights": "closed-form", "sources": ["links"]}
    pred = vg.predict(Normed().double().eval(), graph(), method=method, **options)
    assert pred.method.startswith("first-order (approximate ")
    assert pred.approximate
    assert all(name in pred.method for name in pred.approximate)


def test_links_that_are_hardly_ever_gone_are_left_to_closed_forms():
    model, data = sharp(gnn.GraphConv), graph()
    data.edge_prob = torch.full_like(data.edge_prob, 0.9999)
    pred = vg.predict(model, data, links="bernoulli", sources=["links"])
    assert pred.method.startswith("first-order")


def masked_network():
    torch.manual_seed(0)
    layers = nn.Dropout(0.5), nn.Linear(3, 2), nn.Dropout(0.5), nn.Linear(2, 2)
    model = nn.Sequential(*layers).double().eval()
    with torch.no_grad():
        model[3].weight *= 12
    return model


def test_masks_that_multiply_by_default():
    """Every node by itself has 32 outcomes."""
    model, data = masked_network(), graph()
    data.edge_prob = None
    values = []
    for shown in itertools.product([0, 2], repeat=5):
        first, second = torch.tensor(shown[:3]).double(), torch.tensor(shown[3:]).double()
        with torch.no_grad():
            values.append(model[3](second * model[1](first * data.x)).softmax(1))
    var = torch.stack(values).var(0, correction=0)
    options = {"forward": lambda m, x, d: m(x)}
    closed = vg.predict(model, data, method="first-order", **options)
    assert closed.method.endswith("rough behind masks that multiply")
    assert abs(float(closed.total.sum() / var.sum()) - 1) > 0.1
    pred = vg.predict(model, data, **options)
    assert pred.method.startswith("sampled: class probabilities under dropout")
    more = vg.predict(model, data, samples=4000, **options)
    assert bool(((more.total - var).abs() <= ERRORS * more.std_error.total).all())
