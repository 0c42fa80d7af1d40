"""Networks called as people write them: whole graphs, further inputs, several outputs, pairs."""

import copy
from contextlib import nullcontext as quiet
from typing import NamedTuple

import pytest
import torch
import torch_geometric.nn as gnn
from torch import nn
from torch.nn import functional as F
from torch_geometric.data import Batch, Data

import varigraph as vg
from prediction.networks import Functional, made, noisy_ring
from varigraph.errors import ModelError, OptionError

pytestmark = pytest.mark.filterwarnings("ignore:the network has no dropout")
METHODS = ("auto", "first-order", "covariance", "diagonal", "sampled")


class Tutorial(Functional):
    """As every tutorial writes it."""

    def forward(self, data):
        x, edge_index = data.x, data.edge_index
        x = F.relu(self.first(x, edge_index))
        x = F.dropout(x, self.rate, training=self.training)
        return F.log_softmax(self.second(x, edge_index), dim=1)


@pytest.mark.parametrize("method", METHODS)
def test_a_network_that_takes_the_graph_answers_as_one_that_takes_its_parts(method):
    graph = noisy_ring()
    given = copy.copy(graph.to_dict())
    found = vg.predict(made(Tutorial), graph, method=method, samples=40)
    wanted = vg.predict(made(Functional), graph, method=method, samples=40)
    assert torch.equal(found.total, wanted.total)
    assert float(found.total.sum()) > 0
    assert graph.to_dict().keys() == given.keys()
    assert all(graph[name] is value for name, value in given.items())


def test_other_fields_are_at_hand_and_what_is_written_is_written_on_a_copy():
    class Curious(Tutorial):
        def forward(self, data):
            assert data.num_nodes == 6
            assert data.purpose == "weather"
            assert data.x_var == 0.3
            data.x = 2 * data.x
            data.note = "changed"
            return super().forward(data)

    graph = noisy_ring()
    graph.purpose, before = "weather", graph.x.clone()
    found = vg.predict(made(Curious), graph, samples=0)
    assert float(found.total.sum()) > 0
    assert torch.equal(graph.x, before)
    assert "note" not in graph


NAMES = ["graph", "batch", "g", "anything"]


@pytest.mark.parametrize("name", NAMES)
def test_one_thing_that_is_needed_is_the_graph_whatever_its_name(name):
    scope = {"Tutorial": Tutorial}
    exec(
        f"class Named(Tutorial):\n"
        f"    def forward(self, {name}, scale=1.0):\n"
        f"        return super().forward({name})",
        scope,
    )
    found = vg.predict(made(scope["Named"]), noisy_ring(), samples=0)
    assert torch.equal(found.total, vg.predict(made(Tutorial), noisy_ring(), samples=0).total)


def test_a_network_of_the_features_alone_gets_them():
    graph, dense = noisy_ring(), made(lambda: nn.Sequential(nn.Linear(4, 3)))
    with torch.no_grad():
        want = dense(graph.x)
    found = vg.predict(dense, graph, samples=0)
    assert torch.allclose(found.logits.mean, want)
    weights = dense[0].weight.detach()
    assert torch.allclose(found.logits.var, 0.3 * weights.square().sum(1).expand(6, -1))


class Weighted(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = gnn.GCNConv(4, 3)

    def forward(self, x, edge_index, edge_weight):
        return self.conv(x, edge_index, edge_weight)


class MaybeWeighted(Weighted):
    def forward(self, x, edge_index, edge_weight=None, verbose=False):
        return self.conv(x, edge_index, edge_weight)


class Swapped(Weighted):
    def forward(self, edge_index, x, *, edge_weight):
        return self.conv(x, edge_index, edge_weight)


def warns(text):
    return pytest.warns(UserWarning, match=text)


@pytest.mark.parametrize("kind", [Weighted, MaybeWeighted, Swapped])
@pytest.mark.parametrize("method", ["auto", "sampled"])
def test_what_the_graph_has_is_given_by_name(method, kind):
    graph, model = noisy_ring(), made(kind)
    graph.edge_weight = torch.linspace(0.1, 2, graph.num_edges, dtype=torch.float64)
    with torch.no_grad():
        want = model.conv(graph.x, graph.edge_index, graph.edge_weight)
    told = warns("or without, and is given data.edge_weight") if kind is MaybeWeighted else quiet()
    with told:
        found = vg.predict(model, graph, method=method, samples=4000 if method == "sampled" else 0)
    assert torch.allclose(found.logits.mean, want, atol=0.06)
    said = vg.predict(
        model,
        graph,
        method=method,
        samples=4000 if method == "sampled" else 0,
        forward=lambda model, x, data: model.conv(x, data.edge_index, data.edge_weight),
    )
    assert torch.equal(found.total, said.total)


def test_networks_that_do_not_support_a_field_are_not_given_it():
    graph = noisy_ring()
    graph.edge_attr = torch.rand(graph.num_edges, 2, dtype=torch.float64)
    model = made(lambda: gnn.GCN(4, 8, 2, 3))
    found = vg.predict(model, graph, samples=0)
    del graph.edge_attr
    assert torch.equal(found.total, vg.predict(model, graph, samples=0).total)


class Pooled(nn.Module):
    """Answers for whole graphs."""

    def __init__(self):
        super().__init__()
        self.conv, self.head = gnn.GCNConv(4, 8), nn.Linear(8, 3)

    def forward(self, x, edge_index, batch):
        return self.head(gnn.global_mean_pool(self.conv(x, edge_index).relu(), batch))


class PooledData(Pooled):
    def forward(self, data):
        return super().forward(data.x, data.edge_index, data.batch)


@pytest.mark.parametrize("kind", [Pooled, PooledData])
def test_batches_of_graphs_are_answered_graph_by_graph(kind):
    graphs = [noisy_ring(nodes=nodes) for nodes in (4, 6, 9)]
    batch, model = Batch.from_data_list(graphs), made(kind)
    whole = vg.predict(model, batch, samples=0)
    assert whole.mean.shape == (3, 3)
    alone = [vg.predict(model, Batch.from_data_list([graph]), samples=0) for graph in graphs]
    assert torch.allclose(whole.mean, torch.cat([each.mean for each in alone]), atol=1e-3)
    assert torch.allclose(whole.logits.var, torch.cat([each.logits.var for each in alone]))
    some = vg.predict(model, batch, nodes=[2, 0], samples=0)
    assert torch.allclose(some.mean, whole.mean[[2, 0]])
    drawn = vg.predict(model, batch, method="sampled", samples=3000)
    ratio = drawn.logits.var / whole.logits.var
    assert float(ratio.median()) == pytest.approx(1, abs=0.1)


class Pair(NamedTuple):
    logits: torch.Tensor
    hidden: torch.Tensor


SEVERAL = {
    "tuple": (lambda out, h: (out, h), 0),
    "list": (lambda out, h: [h, out], 1),
    "dict": (lambda out, h: {"hidden": h, "logits": out}, "logits"),
    "named tuple": (Pair, 0),
}


class Several(Functional):
    def __init__(self, make=None):
        super().__init__(rate=0.0)
        self.make = make

    def forward(self, x, edge_index):
        h = self.first(x, edge_index).relu()
        return self.make(self.second(h, edge_index), h)


@pytest.mark.parametrize("kind", SEVERAL)
@pytest.mark.parametrize("method", METHODS)
def test_one_of_several_outputs_is_the_answer(method, kind):
    make, output = SEVERAL[kind]
    model, graph = made(lambda: Several(make)), noisy_ring()
    with pytest.raises(ModelError, match="output=") as raised:
        vg.predict(model, graph, method=method, samples=20)
    assert "(6, 3)" in str(raised.value)
    assert "(6, 8)" in str(raised.value)
    found = vg.predict(model, graph, method=method, samples=20, output=output)
    only = vg.predict(made(lambda: Several(lambda out, h: out)), graph, method=method, samples=20)
    assert torch.equal(found.total, only.total)
    with pytest.raises(OptionError, match="no output"):
        vg.predict(model, graph, method=method, samples=20, output="nothing")


def test_the_only_tensor_is_the_answer():
    graph = noisy_ring()
    found = vg.predict(made(lambda: Several(lambda out, h: (out, None))), graph, samples=0)
    only = vg.predict(made(lambda: Several(lambda out, h: out)), graph, samples=0)
    assert torch.equal(found.total, only.total)


class Embedding(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = gnn.GCNConv(4, 3)

    def forward(self, x, edge_index):
        return self.conv(x, edge_index)


class Encoding(Embedding):
    """As the tutorial on link prediction writes it."""

    def encode(self, x, edge_index):
        return self.conv(x, edge_index)

    def decode(self, z, edge_label_index):
        return (z[edge_label_index[0]] * z[edge_label_index[1]]).sum(dim=-1)


class Labelled(Embedding):
    def forward(self, x, edge_index, edge_label_index):
        z = self.conv(x, edge_index)
        return (z[edge_label_index[0]] * z[edge_label_index[1]]).sum(dim=-1)


LINK_MODELS = {
    "own answer": Embedding,
    "encode and decode": Encoding,
    "GAE": lambda: gnn.GAE(Embedding()),
    "edge_label_index": Labelled,
}


@pytest.mark.parametrize("kind", LINK_MODELS)
def test_links_are_scored_by_dot_products(kind):
    graph, pairs = noisy_ring(), torch.tensor([[0, 1, 2, 5], [3, 2, 4, 5]])
    model = made(LINK_MODELS[kind])
    conv = model.encoder.conv if kind == "GAE" else model.conv
    noise = torch.randn(
        20_000, 6, 4, generator=torch.Generator().manual_seed(1), dtype=torch.float64
    )
    with torch.no_grad():
        z = torch.vmap(conv, in_dims=(0, None))(graph.x + 0.3**0.5 * noise, graph.edge_index)
        true = (z[:, pairs[0]] * z[:, pairs[1]]).sum(-1).sigmoid()
    found = vg.predict(model, graph, links_to_score=pairs, method="sampled", samples=4000)
    assert found.task == "binary"
    assert found.mean.shape == (4, 1)
    error = found.std_error
    far = (found.mean[:, 0] - true.mean(0)).abs()
    assert (far < 4.5 * (error.mean[:, 0] ** 2 + true.var(0) / 20_000).sqrt()).all()
    assert ((found.total[:, 0] - true.var(0)).abs() < 4.5 * error.total[:, 0] + 0.003).all()
    some = vg.predict(model, graph, links_to_score=pairs, nodes=[3], method="sampled")
    assert some.mean.shape == (1, 1)
    assert float(vg.predict(model, graph, links_to_score=pairs.tolist()).total.sum()) > 0


@pytest.mark.parametrize("kind", LINK_MODELS)
def test_scores_by_default_agree_with_draws(kind):
    graph, pairs = noisy_ring(), torch.tensor([[0, 1, 2, 5], [3, 2, 4, 5]])
    graph.x_var, model = 0.01, made(LINK_MODELS[kind])
    found = vg.predict(model, graph, links_to_score=pairs, samples=2000)
    drawn = vg.predict(model, graph, links_to_score=pairs, method="sampled", samples=4000, seed=1)
    ratio = found.logits.var.sum() / drawn.logits.var.sum()
    assert float(ratio) == pytest.approx(1, abs=0.15)


@pytest.mark.parametrize(
    "pairs", [3, [[0, 1]], [[0, 1], [2]], [[0.5], [1.0]], [[0, 9], [1, 2]], [[], []], "ab"]
)
def test_pairs_that_are_none(pairs):
    with pytest.raises(OptionError, match="links_to_score"):
        vg.predict(made(Embedding), noisy_ring(), links_to_score=pairs)


def test_pairs_and_a_way_of_calling_are_not_given_together():
    with pytest.raises(OptionError, match="both"):
        vg.predict(
            made(Embedding),
            noisy_ring(),
            links_to_score=[[0], [1]],
            forward=lambda model, x, data: model(x, data.edge_index),
        )


def test_an_audit_of_scores():
    found = vg.audit(
        made(Encoding), noisy_ring(), links_to_score=[[0, 1], [3, 2]], method="sampled", samples=500
    )
    assert found.task == "binary"


def test_causes_of_a_network_that_takes_the_graph():
    found = vg.attribute(made(Tutorial), noisy_ring(), node=2)
    assert found.variance == vg.attribute(made(Functional), noisy_ring(), node=2).variance


def test_data_without_edge_index_is_called_with_its_matrix():
    graph = noisy_ring()
    matrix = torch.zeros(6, 6, dtype=torch.float64)
    matrix[graph.edge_index[1], graph.edge_index[0]] = 1
    held = Data(x=graph.x, adj_t=matrix.to_sparse_csr(), x_var=0.3)
    found = vg.predict(made(Functional), held, samples=20, method="sampled")
    assert found.mean.shape == (6, 3)
