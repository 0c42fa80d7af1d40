import pytest
import torch
from torch.testing import assert_close
from torch_geometric.data import Data

from varigraph.baselines.bgcn import map_graph, predicted_labels
from varigraph.errors import GraphError, OptionError

QUICK = {"edges_per_node": 5, "base_epochs": 40, "embedding_epochs": 40}


@pytest.fixture
def graph():
    """Three groups of 30 nodes, a fifth of the links between them, 3 labels of each known."""
    generator = torch.Generator().manual_seed(0)
    y = torch.arange(90) % 3
    likely = torch.where(y[:, None] == y, 0.2, 0.025)
    links = (torch.rand(90, 90, generator=generator) < likely).triu(1).nonzero().T
    x = torch.rand(90, 12, generator=generator) + 0.4 * torch.nn.functional.one_hot(y, 12)
    return Data(
        x=x,
        edge_index=torch.cat([links, links.flip(0)], dim=1),
        y=y,
        train_mask=torch.arange(90) < 9,
    )


def agreement(edge_index, y):
    return (y[edge_index[0]] == y[edge_index[1]]).float().mean().item()


def test_links_join_like_nodes_more_often_than_those_observed(graph):
    links, weight = map_graph(graph, **QUICK)
    assert agreement(links, graph.y) > agreement(graph.edge_index, graph.y)
    assert 4 < links.size(1) / 90 < 6
    assert (torch.bincount(links[0], minlength=90) > 0).all()
    assert weight.min() > 0
    assert weight.mean().item() == pytest.approx(1, abs=1e-5)


def test_the_graph_is_symmetric_without_links_to_itself(graph):
    links, weight = map_graph(graph, **QUICK)
    matrix = torch.zeros(90, 90).index_put(tuple(links), weight)
    assert_close(matrix, matrix.T)
    assert not matrix.diag().any()
    assert int((matrix > 0).sum()) == links.size(1)


def test_labels_of_other_nodes_are_not_read(graph):
    links, weight = map_graph(graph, **QUICK)
    changed = graph.clone()
    order = torch.randperm(81, generator=torch.Generator().manual_seed(1)) + 9
    changed.y[9:] = graph.y[order] + 4
    again, weight_again = map_graph(changed, **QUICK)
    assert torch.equal(links, again)
    assert torch.equal(weight, weight_again)


def test_labels_of_training_nodes_are_read(graph):
    changed = graph.clone()
    changed.y[:9] = changed.y[:9].roll(1)
    assert not torch.equal(map_graph(graph, **QUICK)[0], map_graph(changed, **QUICK)[0])


@pytest.mark.parametrize("hard", [True, False])
def test_training_nodes_keep_their_labels(graph, hard):
    graph.y[:9] = torch.tensor([0, 2, 1, 1, 0, 2, 2, 1, 0])
    labels = predicted_labels(graph, epochs=1, hard=hard, seed=0)
    assert torch.equal(labels[:9].argmax(dim=1), graph.y[:9])
    assert labels.shape == (90, 3)
    assert_close(labels.sum(dim=1), torch.ones(90))
    certain = labels.max(dim=1).values == 1
    assert certain[:9].all()
    assert bool(certain[9:].all()) == hard


def test_the_graph_given_stays_and_so_does_the_global_generator(graph):
    before, state = graph.clone(), torch.random.get_rng_state()
    first, again, other = (map_graph(graph, **QUICK, seed=seed) for seed in (1, 1, 2))
    assert torch.equal(torch.random.get_rng_state(), state)
    assert all(torch.equal(before[name], graph[name]) for name in before.keys())  # noqa: SIM118
    assert torch.equal(first[1], again[1])
    assert not torch.equal(first[1], other[1])


def test_progress_is_told_in_order(graph):
    told = []
    map_graph(graph, **QUICK, progress=lambda fraction, what: told.append((fraction, what)))
    assert [what for _, what in told] == ["labels", "vectors", "distances", "weights", "done"]
    assert sorted(told) == told
    assert told[0][0] == 0
    assert told[-1][0] == 1


@pytest.mark.parametrize(
    ("change", "options", "error", "message"),
    [
        ({"y": None}, {}, GraphError, "has no y"),
        ({"train_mask": None}, {}, GraphError, "has no train_mask"),
        (
            {"train_mask": torch.zeros(90, dtype=torch.bool)},
            {},
            GraphError,
            "no nodes in train_mask",
        ),
        ({}, {"edges_per_node": 89}, GraphError, "89 edges per node"),
        ({}, {"edges_per_node": 0}, OptionError, "edges_per_node=0"),
        ({}, {"candidates": 1}, OptionError, "candidates=1"),
    ],
)
def test_mistakes_are_explained(graph, change, options, error, message):
    for name, value in change.items():
        graph[name] = value
    with pytest.raises(error, match=message):
        map_graph(graph, **{**QUICK, **options})
