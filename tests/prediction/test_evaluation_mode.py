"""Dropout is opened, and nothing else: in all other ways the model is in evaluation mode."""

import copy

import pytest
import torch
from torch import nn
from torch.nn import functional as F
from torch_geometric import nn as gnn

import varigraph as vg
from prediction.networks import made, noisy_ring
from varigraph.errors import MissingRuleError

METHODS = ["auto", "first-order", "covariance", "diagonal", "sampled"]


class Two(nn.Module):
    """Two layers with dropout in between, in whatever way."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = gnn.SAGEConv(4, 8), gnn.SAGEConv(8, 3)

    def forward(self, x, edge_index):
        hidden = self.first(x, edge_index).relu()
        return self.second(F.dropout(hidden, 0.4, self.training), edge_index)


class PropagatesInEvaluation(Two):
    """As PMLP does: a perceptron while it learns, a graph network when it is asked."""

    def forward(self, x, edge_index):
        links = edge_index[:, :0] if self.training else edge_index
        return super().forward(x, links)


class ScalesInEvaluation(Two):
    def forward(self, x, edge_index):
        out = super().forward(x, edge_index)
        return out if self.training else 3 * out


class Counts(Two):
    """Changes a buffer while it learns."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("steps", torch.zeros(()))

    def forward(self, x, edge_index):
        if self.training:
            self.steps += 1
        return super().forward(x, edge_index)


class Normalised(Two):
    def __init__(self) -> None:
        super().__init__()
        self.norm = gnn.BatchNorm(8)

    def forward(self, x, edge_index):
        hidden = self.norm(self.first(x, edge_index)).relu()
        return self.second(F.dropout(hidden, 0.4, self.training), edge_index)


class Remembers(Two):
    """Leaves its last hidden values on itself."""

    def forward(self, x, edge_index):
        self.hidden = self.first(x, edge_index).relu()
        return self.second(F.dropout(self.hidden, 0.4, self.training), edge_index)


NETWORKS = [PropagatesInEvaluation, ScalesInEvaluation, Counts, Normalised, Remembers]


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("network", NETWORKS)
def test_with_next_to_no_noise_the_answer_is_the_model_in_evaluation(network, method):
    model, graph = made(network), noisy_ring()
    graph.x_var = 1e-12
    own = model.eval()(graph.x, graph.edge_index).softmax(-1)
    model.train()  # whatever mode it comes in
    pred = vg.predict(model, graph, method=method, sources=("features",), samples=2)
    assert torch.allclose(pred.mean, own, atol=1e-6)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("network", NETWORKS)
def test_the_model_is_as_before(network, method):
    model = made(network)
    before, attributes = copy.deepcopy(model.state_dict()), set(vars(model))
    vg.predict(model, noisy_ring(), method=method, samples=4)
    after = model.state_dict()
    assert all(torch.equal(after[name], value) for name, value in before.items())
    assert set(vars(model)) == attributes


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("network", [PropagatesInEvaluation, ScalesInEvaluation])
def test_masks_act_on_the_network_in_evaluation(network, method):
    """Against dropout by hand, everything else as in evaluation."""
    model, graph = made(network), noisy_ring()
    graph.x_var = 0.0
    pred = vg.predict(
        model, graph, method=method, task="regression", sources=("weights",), samples=2000
    )
    factor = 3.0 if network is ScalesInEvaluation else 1.0
    draws = torch.Generator().manual_seed(0)
    with torch.no_grad():
        hidden = model.first(graph.x, graph.edge_index).relu()
        masks = (torch.rand(4000, *hidden.shape, generator=draws) > 0.4).double() / 0.6
        runs = torch.stack(
            [factor * model.second(hidden * mask, graph.edge_index) for mask in masks]
        )
    ratio = float(pred.epistemic.sum() / runs.var(0).sum())
    assert ratio == pytest.approx(1, abs=0.1)
    assert torch.allclose(pred.mean, runs.mean(0), atol=0.1 * float(runs.std(0).max()))


class DropsPositions(nn.Module):
    """Dropout on something that no noise of the features reaches."""

    def __init__(self):
        super().__init__()
        self.place, self.conv = nn.Linear(2, 4), gnn.SAGEConv(4, 3)

    def forward(self, x, edge_index, pos):
        return self.conv(x + F.dropout(self.place(pos), 0.5, self.training), edge_index)


def test_dropout_of_other_inputs_is_not_forgotten():
    graph, model = noisy_ring(), made(DropsPositions)
    graph.pos = torch.ones(6, 2, dtype=torch.float64)
    with pytest.raises(MissingRuleError, match="not made of the features"):
        vg.predict(model, graph, method="first-order")
    found = vg.predict(model, graph, samples=50, task="regression")
    assert found.method.startswith("sampled")
    assert bool((found.by_source["weights"].sum() > 0).all())
