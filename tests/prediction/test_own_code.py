"""Networks that keep things, draw for themselves or fail on stand-ins: answered, or told why."""

import pytest
import torch
import torch_geometric.nn as gnn
from torch import nn
from torch.nn import functional as F

import varigraph as vg
from prediction.networks import made, noisy_ring
from varigraph.errors import ModelError, OptionError

pytestmark = pytest.mark.filterwarnings("ignore:the network has no dropout")
METHODS = ("auto", "first-order", "covariance", "diagonal", "sampled")


class Two(nn.Module):
    def __init__(self, rate=0.0):
        super().__init__()
        self.first, self.second, self.rate = gnn.SAGEConv(4, 8), gnn.SAGEConv(8, 3), rate

    def forward(self, x, edge_index):
        hidden = F.dropout(self.first(x, edge_index).relu(), self.rate, self.training)
        return self.second(hidden, edge_index)


class KeepsHidden(Two):
    """Computes the first layer once and for all, as people do to save time."""

    def __init__(self, rate=0.0):
        super().__init__(rate)
        self.hidden = None

    def forward(self, x, edge_index):
        if self.hidden is None:
            self.hidden = self.first(x, edge_index).relu()
        return self.second(F.dropout(self.hidden, self.rate, self.training), edge_index)


class KeepsInDict(Two):
    def __init__(self, rate=0.0):
        super().__init__(rate)
        self.kept = {}

    def forward(self, x, edge_index):
        if "hidden" not in self.kept:
            self.kept["hidden"] = self.first(x, edge_index).relu()
        return self.second(F.dropout(self.kept["hidden"], self.rate, self.training), edge_index)


class KeepsFeatures(Two):
    def __init__(self, rate=0.0):
        super().__init__(rate)
        self.x = None

    def forward(self, x, edge_index):
        self.x = x if self.x is None else self.x
        return super().forward(self.x, edge_index)


KEEPING = [KeepsHidden, KeepsInDict, KeepsFeatures]


@pytest.mark.parametrize("rate", [0.0, 0.4])
@pytest.mark.parametrize("kind", KEEPING)
@pytest.mark.parametrize("method", METHODS)
def test_what_a_run_keeps_is_not_there_for_the_next(method, kind, rate):
    graph, options = noisy_ring(), {"method": method, "samples": 40}
    model = made(lambda: kind(rate))
    found = vg.predict(model, graph, **options)
    wanted = vg.predict(made(lambda: Two(rate)), graph, **options)
    assert torch.allclose(found.mean, wanted.mean)
    assert torch.allclose(found.total, wanted.total)
    assert not getattr(model, "kept", None)
    assert getattr(model, "hidden", None) is None
    assert getattr(model, "x", None) is None


@pytest.mark.parametrize("kind", KEEPING)
@pytest.mark.parametrize("method", METHODS)
def test_noise_that_never_reaches_the_answer_is_told(method, kind):
    graph, model = noisy_ring(), made(kind)
    model(graph.x, graph.edge_index)  # from here on it answers for these features
    with pytest.raises(ModelError, match=r"given x|does not depend on the x"):
        vg.predict(model, graph, method=method, samples=20)


FORWARDS = [
    lambda model, x, data: model(data.x, data.edge_index),
    lambda model, x, data: model(x.new_zeros(x.shape) + data.x, data.edge_index),
    lambda model, x, data: (model(x, data.edge_index), model(data.x, data.edge_index))[1],
]


@pytest.mark.parametrize("rate", [0.0, 0.4])
@pytest.mark.parametrize("place", range(3))
def test_a_forward_that_takes_the_features_from_elsewhere_is_told(place, rate):
    graph, model = noisy_ring(), made(lambda: Two(rate))
    for method in METHODS:
        with pytest.raises(ModelError, match=r"given x|does not depend on the x"):
            vg.predict(model, graph, method=method, samples=20, forward=FORWARDS[place])
    found = vg.predict(
        made(lambda: Two(0.4)), graph, sources=["weights"], samples=20, forward=FORWARDS[place]
    )
    assert float(found.total.sum()) > 0  # the remedy


class Draws(Two):
    """Adds noise of its own, whatever the mode."""

    def forward(self, x, edge_index):
        hidden = self.first(x, edge_index).relu()
        return self.second(hidden + 0.1 * torch.randn(hidden.shape).to(hidden), edge_index)


class DropsLinks(Two):
    def forward(self, x, edge_index):
        from torch_geometric.utils import dropout_edge

        return super().forward(x, dropout_edge(edge_index, 0.3)[0])


class Bipartite(Two):
    def forward(self, x, edge_index):
        hidden = self.first((x, x), edge_index).relu()
        return self.second((hidden, hidden[:6]), edge_index)


class AsksNumbers(Two):
    """Fails on anything but plain numbers."""

    def forward(self, x, edge_index):
        if x.detach().numpy().max() > 1e6:
            raise ValueError
        return super().forward(x, edge_index)


class Weighted(Two):
    def __init__(self):
        super().__init__()
        self.second = gnn.GCNConv(8, 3)

    def forward(self, x, edge_index):
        weight = torch.linspace(0.1, 1, edge_index.size(1)).to(x) * x.mean().sigmoid()
        return self.second(self.first(x, edge_index).relu(), edge_index, weight)


class Hooked(Two):
    def __init__(self):
        super().__init__()
        self.first.register_message_forward_hook(lambda layer, given, out: 2 * out)


class OwnForward(Two):
    def __init__(self):
        super().__init__()
        inner = self.second.forward
        object.__setattr__(self.second, "forward", lambda x, links: 2 * inner(x, links))


class DropsInside(Two):
    def __init__(self):
        super().__init__()
        self.walk = gnn.APPNP(3, 0.2, dropout=0.3)

    def forward(self, x, edge_index):
        return self.walk(super().forward(x, edge_index), edge_index)


ANSWERED = [Draws, DropsLinks, Bipartite, AsksNumbers, Weighted, Hooked, OwnForward, DropsInside]


@pytest.mark.parametrize("kind", ANSWERED)
def test_auto_answers_where_sampling_can(kind):
    graph, model = noisy_ring(), made(kind)
    drawn = vg.predict(model, graph, method="sampled", samples=60)
    found = vg.predict(model, graph, samples=60)
    if found.method.startswith("sampled"):
        assert len(found.method) > len("sampled: ")
        assert torch.equal(found.total, drawn.total)
    else:
        assert float(found.logits.var.sum() / drawn.logits.var.sum()) == pytest.approx(1, abs=0.4)


def test_mistakes_in_options_are_told_at_once():
    with pytest.raises(OptionError, match="node 9"):
        vg.predict(made(AsksNumbers), noisy_ring(), nodes=[9])
    with pytest.raises(ModelError, match="own"):
        vg.predict(made(Draws), noisy_ring(), method="first-order", samples=0)


@pytest.mark.parametrize("method", METHODS)
def test_a_mistake_in_the_network_is_quoted(method):
    class Wrong(Two):
        def forward(self, x, edge_index):
            return super().forward(x, edge_index) @ torch.ones(7, 2).to(x)

    with pytest.raises(ModelError):
        vg.predict(made(Wrong), noisy_ring(), method=method, samples=20)


class Counts(Two):
    """Changes buffers and lists in every run, in evaluation too."""

    def __init__(self):
        super().__init__()
        self.register_buffer("runs", torch.zeros(()))
        self.register_buffer("last", torch.zeros(3))
        self.seen = []

    def forward(self, x, edge_index):
        self.runs += 1
        out = super().forward(x, edge_index)
        self.last = torch.ones(3)
        self.seen.append(1)
        return out


@pytest.mark.parametrize("method", METHODS)
def test_buffers_and_lists_are_as_before(method):
    model = made(Counts)
    last, runs = model.last, model.runs
    vg.predict(model, noisy_ring(), method=method, samples=20)
    assert model.runs is runs
    assert float(model.runs) == 0
    assert model.last is last
    assert model.seen == []
