"""Which answers to trust: what the ranking is, who is to blame, and the network's own answer."""

import numpy as np
import pytest
import torch
from torch import nn
from torch_geometric.data import Data
from torch_geometric.nn import GCN, SAGEConv, global_mean_pool

import varigraph as vg
from prediction.networks import Functional, made, noisy_ring
from varigraph.errors import OptionError
from varigraph.moments import Gaussian
from varigraph.prediction import Prediction
from varigraph.prediction.rows import Rows
from varigraph.prediction.sources.source import all_parts


def answer(mean, task, **parts):
    mean = torch.tensor(mean)
    none = torch.zeros_like(mean)
    by_source = {part: torch.tensor(parts[part]) if part in parts else none for part in all_parts()}
    return Prediction(mean, by_source, Gaussian.certain(mean), "made up", 0, task)


def test_trust_is_the_chance_of_being_right_counted_draw_by_draw():
    """A truth is drawn from each of many uncertain answers."""
    rng = np.random.default_rng(0)
    draws = rng.dirichlet([2.0, 1.0, 0.5], size=200_000)  # [draws, classes]
    truth = (draws.cumsum(1) > rng.random((len(draws), 1))).argmax(1)
    mean = draws.mean(0)
    pred = answer([mean.tolist()], "classification", weights=[draws.var(0).tolist()])
    assert float(pred.trust) == pytest.approx((truth == mean.argmax()).mean(), abs=4e-3)
    # The doubt, V[right], is what the network leaves open in each draw and the scatter of draws.
    (found,) = pred.least_trusted(1)
    best = mean.argmax()
    own = (draws[:, best] * (1 - draws[:, best])).mean() / (truth == best).var()
    assert found.cause == "the network itself"
    assert found.share == pytest.approx(own, abs=0.01)


@pytest.mark.parametrize(
    ("task", "mean", "std", "expected"),
    [
        ("binary", [[0.1], [0.7]], [[0.0], [0.0]], [0.9, 0.7]),
        ("multilabel", [[0.1, 0.8], [0.5, 0.5]], [[0.0, 0.0], [0.0, 0.0]], [0.85, 0.5]),
        ("regression", [[3.0, 9.0], [5.0, 5.0]], [[0.5, 1.5], [0.0, 0.4]], [-1.0, -0.2]),
    ],
)
def test_trust_of_other_tasks(task, mean, std, expected):
    pred = answer(mean, task, weights=[[value**2 for value in row] for row in std])
    assert pred.trust.tolist() == pytest.approx(expected)
    assert pred.std.flatten().tolist() == pytest.approx([value for row in std for value in row])


def test_the_least_trusted_come_first_and_name_what_is_to_blame():
    pred = answer(
        [[0.9, 0.1], [0.5, 0.5], [0.4, 0.6]],
        "classification",
        features=[[0.0, 0.0], [0.2, 0.2], [0.01, 0.01]],
        links=[[0.0, 0.0], [0.01, 0.01], [0.2, 0.2]],
    )
    first, second = pred.least_trusted(2)
    assert (first.node, first.cause, second.node, second.cause) == (1, "features", 2, "links")
    assert first.share == pytest.approx(0.8)
    assert first.std == pytest.approx(0.21**0.5)
    assert (second.value, second.answer) == (pytest.approx(0.6), "class 1")
    assert second.remedy == "check its links"
    assert pred.least_trusted(2)[1] == second
    assert "node 1" in str(pred.least_trusted(1))
    assert len(pred.least_trusted(99)) == 3


def test_of_values_the_least_certain_one_is_told():
    pred = answer([[1.0, 2.0]], "regression", weights=[[0.1, 0.4]], features=[[0.0, 1.0]])
    (found,) = pred.least_trusted()
    assert (found.answer, found.value, found.cause) == ("output 1", 2.0, "features")
    assert found.share == pytest.approx(1 / 1.4)


def test_certain_answers_can_be_asked_too():
    (found,) = answer([[1.0, 0.0]], "classification").least_trusted()
    assert found.share == 0
    assert found.trust == 1


@pytest.mark.parametrize("count", [0, -1, 1.5, "all"])
def test_a_count_that_makes_no_sense(count):
    with pytest.raises(OptionError, match="count"):
        answer([[1.0, 0.0]], "classification").least_trusted(count)


def test_names_are_escaped_in_notebooks():
    rows = Rows(names=["<b>"], outputs=["<i>", "no"])
    pred = Prediction(
        *(torch.tensor([[0.6, 0.4]]), {part: torch.zeros(1, 2) for part in all_parts()}),
        *(Gaussian.certain(torch.zeros(1, 2)), "made up", 0),
        rows=rows,
    )
    html = pred.least_trusted()._repr_html_()
    assert "&lt;b&gt;" in html
    assert "<b>" not in html
    assert "<i>" not in html


# ---- the network's own answer ----


@pytest.mark.parametrize("method", ["auto", "first-order", "covariance", "diagonal", "sampled"])
@pytest.mark.parametrize("task", ["classification", "multilabel", "regression"])
def test_the_plain_answer_is_the_networks_own(method, task):
    model, graph = made(Functional), noisy_ring()
    pred = vg.predict(model, graph, method=method, samples=4, task=task)
    with torch.no_grad():
        out = model.eval()(graph.x, graph.edge_index)
    own = {"classification": out.softmax(1), "multilabel": out.sigmoid(), "regression": out}[task]
    assert torch.equal(pred.plain, own)


def test_the_plain_answer_looks_through_a_last_softmax():
    class Normalised(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = SAGEConv(4, 3)

        def forward(self, x, edge_index):
            return self.layer(x, edge_index).log_softmax(-1)

    torch.manual_seed(0)
    model, graph = Normalised().eval().double(), noisy_ring()
    pred = vg.predict(model, graph, samples=0)
    with torch.no_grad():
        assert torch.allclose(pred.plain, model(graph.x, graph.edge_index).exp(), atol=1e-6)


def test_some_nodes_are_called_by_their_own_names():
    model, graph = made(Functional), noisy_ring()
    graph.node_names = [f"n{node}" for node in range(graph.num_nodes)]
    graph.class_names = ["a", "b", "c"]
    everywhere, some = vg.predict(model, graph), vg.predict(model, graph, nodes=["n3", "n1"])
    assert torch.equal(some.plain, everywhere.plain[[3, 1]])
    found = {each.name: each for each in some.least_trusted()}
    assert set(found) == {"n3", "n1"}
    assert found["n3"].node == 3
    assert found["n3"].value == pytest.approx(float(everywhere.mean[3].max()))
    assert found["n3"].answer in graph.class_names
    mask = torch.arange(graph.num_nodes) == 2
    (only,) = vg.predict(model, graph, nodes=mask).least_trusted()
    assert only.name == "n2"


def test_rows_that_are_no_nodes_have_no_links_and_no_names():
    class Pooled(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = SAGEConv(4, 3)

        def forward(self, x, edge_index, batch):
            return global_mean_pool(self.layer(x, edge_index), batch)

    graph = noisy_ring()
    graph.batch = (torch.arange(graph.num_nodes) >= 2).long()
    graph.node_names = [f"n{node}" for node in range(graph.num_nodes)]
    pred = vg.predict(Pooled().double(), graph, samples=0)
    assert pred.plain.shape == pred.mean.shape
    assert pred.rows.edge_index is None
    assert pred.least_trusted(1)[0].name.startswith("node ")


def test_pairs_are_no_nodes_either():
    graph = noisy_ring()
    graph.node_names = [f"n{node}" for node in range(graph.num_nodes)]
    pred = vg.predict(made(Functional), graph, links_to_score=torch.tensor([[0, 1], [2, 3]]))
    assert pred.plain.shape == (2, 1)
    assert pred.rows.names is None


def test_there_is_no_plain_answer_where_a_whole_run_does_not_fit():
    nodes = 40_000
    ring = torch.stack([torch.arange(nodes), torch.arange(nodes).roll(1)])
    graph = Data(x=torch.rand(nodes, 4), edge_index=ring, x_var=0.1)
    model = GCN(4, 8, num_layers=1, out_channels=2)
    pred = vg.predict(model, graph, method="diagonal", samples=0, memory="24MiB")
    assert pred.plain is None
    assert pred.least_trusted(1)[0].plain is None
