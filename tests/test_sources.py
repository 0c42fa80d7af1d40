"""A source of uncertainty that is written here alone reaches every method, against enumeration."""

import itertools
from dataclasses import replace
from functools import partial
from unittest.mock import patch

import pytest
import torch
from torch import nn
from torch_geometric import nn as gnn
from torch_geometric.data import Data

import varigraph as vg
from varigraph import sources
from varigraph.prediction.sources.source import SOURCES

# ---- the source: sensors that are off by ± their offset, all features of a node together ----

#: Links here are coins that silence messages.
predict = partial(vg.predict, links="bernoulli")
attribute = partial(vg.attribute, links="bernoulli")


class Offsets(sources.Source):
    name = "offsets"
    moves_features = True

    def given(self, data):
        return data.get("offset")

    def held(self, question):
        return replace(question, given={**question.given, self.name: None})

    def uncertain(self, question):
        return question.given[self.name] is not None

    def enter(self, x, question):
        offset = question.given[self.name]
        if offset is None:
            return x
        return sources.with_noise(x, offset[:, :, None] * offset[:, None], self.name)

    def draw(self, network, sample, sites):
        offset = network.question.given[self.name]
        random = torch.Generator().manual_seed(1000 * network.question.seed + sample)
        sign = torch.randint(2, (len(offset), 1), generator=random) * 2 - 1
        return {"shift": sign * offset}

    def use(self, inputs, drawn):
        inputs.x = inputs.x + drawn["shift"]

    def leaf(self, question):
        sign = torch.zeros(len(question.x.mean), 1).double().requires_grad_()
        shift = sign * question.given[self.name]
        return sources.Leaf(sign, torch.ones_like(sign), {"shift": shift})


# ---- and what it must do ----


@pytest.fixture(autouse=True)
def registered():
    with patch.dict(SOURCES):
        sources.register(Offsets())
        yield


def graph(features=1, links=False):
    """A path of four nodes; each is met once by each of its neighbours."""
    random = torch.Generator().manual_seed(0)
    path = torch.tensor([[0, 1, 2], [1, 2, 3]])
    data = Data(
        x=torch.randn(4, features, generator=random).double(),
        edge_index=torch.cat([path, path.flip(0)], 1),
        offset=torch.rand(4, features, generator=random).double(),
    )
    if links:
        data.edge_prob = torch.tensor([0.3, 0.8, 1.0] * 2).double()
    return data


def one_layer(features=1):
    torch.manual_seed(1)
    return gnn.GraphConv(features, 2).double()


class TwoLayers(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(2)
        self.first, self.second = gnn.GraphConv(3, 4).double(), gnn.SAGEConv(4, 2).double()

    def forward(self, x, edge_index):
        return self.second(self.first(x, edge_index), edge_index)


def enumerated(model, data):
    """Variance over all signs, each as likely as the others."""
    with torch.no_grad():
        signs = itertools.product((-1.0, 1.0), repeat=len(data.x))
        moved = (torch.tensor(sign).double()[:, None] * data.offset for sign in signs)
        return torch.stack([model(data.x + shift, data.edge_index) for shift in moved]).var(
            0, correction=0
        )


@pytest.mark.parametrize("method", ["auto", "first-order", "covariance", "diagonal"])
def test_closed_forms_of_one_layer(method):
    """No number is used twice: all closed forms are exact."""
    data, model = graph(), one_layer()
    pred = predict(model, data, method=method, task="regression", samples=0)
    want = enumerated(model, data)
    assert torch.allclose(pred.total, want)
    assert torch.allclose(pred.by_source["offsets"], want)
    assert not pred.by_source["features"].any()
    assert torch.allclose(pred.mean, model(data.x, data.edge_index))


def test_features_of_a_node_move_together():
    """Beside the diagonal method all know that; a node's own block is all that one layer sees."""
    data, model = graph(3), one_layer(3)
    want = enumerated(model, data)
    for method in ("first-order", "covariance"):
        pred = predict(model, data, method=method, task="regression", samples=0)
        assert torch.allclose(pred.total, want)
    pred = predict(model, data, method="diagonal", task="regression", samples=0)
    assert not torch.allclose(pred.total, want)


def test_nodes_that_are_met_on_several_walks():
    """First-order keeps track of all walks of two layers."""
    data, model = graph(3), TwoLayers()
    pred = predict(model, data, task="regression", samples=0)
    assert pred.method.startswith("first-order")
    assert torch.allclose(pred.total, enumerated(model, data))


def test_classes():
    """To leading order, small offsets move class probabilities as their slopes say."""
    data, model = graph(3), TwoLayers()
    data.offset *= 1e-3
    softmax = lambda x, edge_index: model(x, edge_index).softmax(-1)  # noqa: E731
    pred = predict(model, data, samples=0)
    assert torch.allclose(pred.total, enumerated(softmax, data), rtol=1e-2)


def test_draws():
    data, model = graph(3), TwoLayers()
    pred = predict(model, data, method="sampled", task="regression", samples=2000)
    off = (pred.total - enumerated(model, data)) / pred.std_error.total
    assert float(off.abs().max()) < 5
    again = predict(model, data, method="sampled", task="regression", samples=2000)
    assert torch.equal(again.total, pred.total)


def test_beside_three_other_sources():
    """Shares of four sources, from runs of which any two have one draw in common at most."""
    torch.manual_seed(3)
    data = graph(3, links=True)
    # One way only: no walk comes back over the link that it went out on.
    data.edge_index, data.edge_prob = data.edge_index[:, :3], data.edge_prob[:3]
    model = gnn.GraphSAGE(3, 4, 2, 2, dropout=0.2, act=None).double()
    data.x_var = 0.05
    pred = predict(model, data, method="sampled", task="regression", samples=12_000)
    known = predict(model, data, method="first-order", task="regression").by_source
    assert list(pred.by_source) == ["features", "links", "weights", "offsets", "interactions"]
    for name in ("features", "offsets"):  # in a linear network first-order has them exactly
        off = (pred.by_source[name] - known[name]) / pred.std_error.by_source[name]
        assert float(off.abs().max()) < 5, name
    assert float(pred.by_source["offsets"].min()) > 0


def test_noise_that_is_lost_with_a_link():
    """Signs and coins together, enumerated: first-order of one layer has all of their variance."""
    data, model = graph(links=True), one_layer()
    pred = predict(model, data, task="regression", samples=0)
    outcomes, chances = [], []
    for kept in itertools.product((0.0, 1.0), repeat=2):
        coins = torch.tensor([*kept, 1.0] * 2).double()
        chance = torch.tensor([p if k else 1 - p for k, p in zip(kept, (0.3, 0.8), strict=True)])
        for sign in itertools.product((-1.0, 1.0), repeat=4):
            x = data.x + torch.tensor(sign).double()[:, None] * data.offset
            with torch.no_grad():
                outcomes.append(model(x, data.edge_index, coins))
            chances.append(float(chance.prod()) / 16)
    drawn, weight = torch.stack(outcomes), torch.tensor(chances).double()[:, None, None]
    mean = (weight * drawn).sum(0)
    assert torch.allclose(pred.mean, mean)
    assert torch.allclose(pred.total, (weight * (drawn - mean) ** 2).sum(0))


@pytest.mark.parametrize("node", range(4))
def test_attribution(node):
    data, model = graph(3), TwoLayers()
    blame = attribute(model, data, node, output=1, task="regression")
    want = float(enumerated(model, data)[node, 1])
    assert blame.by_source["offsets"] == pytest.approx(want)
    assert blame.variance == pytest.approx(want)


def test_held_at_its_mean():
    data = graph(3)
    data.x_var = 0.1
    pred = predict(TwoLayers(), data, sources=("features",), task="regression", samples=0)
    del data.offset
    want = predict(TwoLayers(), data, task="regression", samples=0)
    assert torch.equal(pred.total, want.total)


def test_other_sources_are_as_before():
    fields = ["edge_attr", "edge_weight", "pos"]
    assert list(SOURCES) == ["features", *fields, "links", "weights", "offsets"]
    data = graph(3)
    del data.offset
    data.x_var = 0.1
    pred = predict(TwoLayers(), data, task="regression", samples=0)
    assert not pred.by_source["offsets"].any()
    assert not set(fields) & set(pred.by_source)
