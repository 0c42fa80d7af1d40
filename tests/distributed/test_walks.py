"""Closed forms for a part are those of the whole graph, from what walks reach alone."""

import numpy as np
import pytest
import torch
from torch_geometric.data import Data

import varigraph as vg
from distributed.networks import Net
from distributed.processes import in_processes
from varigraph.distributed import partition, predict, read_answer
from varigraph.distributed.parts import Partition
from varigraph.distributed.walks import Walks
from varigraph.errors import ModelError

NODES, STEPS = 60, 3


def long_graph():
    """A ring with chords to the next but two, both ways, where walks come round slowly."""
    generator = torch.Generator().manual_seed(1)
    here = torch.arange(NODES)
    pairs = torch.cat([torch.stack([here, (here + far) % NODES]) for far in (1, 3)], dim=1)
    pairs = pairs[:, torch.rand(pairs.shape[1], generator=generator) < 0.8]
    chance = 0.5 + 0.5 * torch.rand(pairs.shape[1], generator=generator).double()
    return Data(
        x=torch.randn(NODES, 5, generator=generator).double(),
        edge_index=torch.cat([pairs, pairs.flip(0)], dim=1),
        x_var=0.05 + 0.1 * torch.rand(NODES, 5, generator=generator).double(),
        edge_prob=torch.cat([chance, chance]),
    )


def steps_away(graph, nodes, steps):
    """Nodes from which that many links, or fewer, lead to some nodes; in plain numpy."""
    source, target = graph.edge_index.numpy()
    found = np.isin(np.arange(NODES), nodes)
    for _ in range(steps):
        found[source[found[target]]] = True
    return np.flatnonzero(found)


@pytest.fixture(scope="module")
def parts(tmp_path_factory):
    folder = tmp_path_factory.mktemp("walks")
    return partition(long_graph(), folder / "parts", parts=6, by="range")


@pytest.mark.parametrize(
    ("kind", "method", "links"),
    [
        ("SAGEConv", "first-order", "removed"),
        ("GCNConv", "first-order", "removed"),
        ("GCNConv", "first-order", "bernoulli"),
        ("GINConv", "first-order", "removed"),
        ("SGConv", "first-order", "bernoulli"),
        ("GCNConv", "covariance", "removed"),
    ],
)
def test_a_part_is_answered_as_in_the_whole_graph(parts, tmp_path, kind, method, links):
    alone = vg.predict(Net(kind), long_graph(), method=method, links=links)
    predict(Net(kind), parts.folder, tmp_path / "out", method=method, links=links)
    found = read_answer(tmp_path / "out")
    assert found.method == alone.method
    torch.testing.assert_close(found.plain, alone.plain, rtol=0, atol=1e-12)
    torch.testing.assert_close(found.mean, alone.mean, rtol=1e-6, atol=1e-12)
    assert found.by_source.keys() == alone.by_source.keys()
    for part, var in alone.by_source.items():
        torch.testing.assert_close(found.by_source[part], var, rtol=1e-6, atol=1e-12)


def test_no_more_is_read_than_walks_reach(parts):
    """Of three layers: nodes three steps away whole, those four away for what they link to."""
    walks = Walks(parts, Net("GCNConv"), "first-order", None, {"memory": "1GiB"})
    nodes = np.arange(20, 24)
    data = walks._sufficient(nodes)
    found = walks.reached(nodes, STEPS)
    assert data.num_nodes == len(found.nodes) < NODES
    assert sorted(found.nodes) == steps_away(long_graph(), nodes, STEPS + 1).tolist()
    complete = found.nodes[: found.reach.complete]
    assert sorted(complete) == steps_away(long_graph(), nodes, STEPS).tolist()
    assert data.num_edges == np.isin(long_graph().edge_index[1], complete).sum()


def test_steps_of_a_layer_are_counted(parts):
    walks = Walks(parts, Net("SGConv"), "first-order", None, {"memory": "1GiB"})
    nodes = np.arange(4)
    walks._sufficient(nodes)
    assert walks._steps == 2 * STEPS


class Pooled(Net):
    def forward(self, x, edge_index):
        return super().forward(x, edge_index) - x.mean(0)[:3]


class Sending(Net):
    """Divides by the number of links that lead from a node."""

    def forward(self, x, edge_index):
        ones = torch.ones(edge_index.shape[1], dtype=x.dtype)
        count = torch.zeros(len(x), dtype=x.dtype).index_add(0, edge_index[0], ones)
        return super().forward(x, edge_index) / (1 + count[:, None])


@pytest.mark.parametrize("network", [Pooled, Sending])
def test_what_no_walk_tells_is_refused(parts, tmp_path, network):
    with pytest.raises(ModelError, match="looks at all nodes, or at links that lead from a node"):
        predict(network("SAGEConv"), parts.folder, tmp_path / "out", method="first-order")
    assert not (tmp_path / "out").exists()


def test_what_is_too_much_at_once_is_answered_in_pieces(parts, tmp_path, monkeypatch):
    asked, answer = [], Walks.answer

    def counted(self, nodes):
        asked.append(len(nodes))
        if len(nodes) > 6:
            raise vg.errors.TooLargeError("walks reach", "less")
        return answer(self, nodes)

    monkeypatch.setattr(Walks, "answer", counted)
    predict(Net("GCNConv"), parts.folder, tmp_path / "out", method="first-order")
    alone = vg.predict(Net("GCNConv"), long_graph(), method="first-order")
    torch.testing.assert_close(
        read_answer(tmp_path / "out").total, alone.total, rtol=1e-6, atol=1e-12
    )
    assert sum(some for some in asked if some <= 6) == NODES
    assert max(asked) == max(Partition.read(parts.folder).counts(p)["own"] for p in range(6))


def answer(folder, out):
    predict(Net("GCNConv"), folder, out, method="first-order")


def test_processes_answer_as_one_does(parts, tmp_path):
    assert in_processes(2, answer, parts.folder, tmp_path / "two") == [None, None]
    answer(parts.folder, tmp_path / "one")
    one, two = (read_answer(tmp_path / name) for name in ("one", "two"))
    assert torch.equal(one.total, two.total)
