"""What cannot be answered in parts is refused, by all processes, and nobody waits for ever."""

import os
import re
import shutil
import signal
import time

import pytest
import torch
from torch_geometric import nn as gnn
from torch_geometric.utils import degree

from distributed.graphs import small_graph
from distributed.networks import Net
from distributed.processes import in_processes
from distributed.test_predict import double_graph
from varigraph.distributed import exchange, partition, predict
from varigraph.errors import FileError, MissingRuleError, ModelError, OptionError


class Pooled(Net):
    def forward(self, x, edge_index):
        return super().forward(x, edge_index) - x.mean(0)[:3]


class Normed(Net):
    def __init__(self, kind):
        super().__init__(kind)
        self.norm = gnn.GraphNorm(5).double()

    def forward(self, x, edge_index):
        return super().forward(self.norm(x), edge_index)


class Counting(Net):
    """Divides by degrees of senders, which it counts itself."""

    def forward(self, x, edge_index):
        count = degree(edge_index[1], len(x), dtype=x.dtype).clamp_min(1)
        return self.one(x, edge_index, 1 / count[edge_index[0]])


class Random(Net):
    def forward(self, x, edge_index):
        return super().forward(x + torch.randn_like(x), edge_index)


class OneForAll(Net):
    def forward(self, x, edge_index):
        return super().forward(x, edge_index).mean(0, keepdim=True)


REFUSED = {
    "layers of two steps": (lambda: Net("SGConv"), r"layer one \(SGConv\) looks at more than"),
    "a mean of all nodes": (lambda: Pooled("SAGEConv"), "Pooled looks at more than"),
    "a norm over all nodes": (lambda: Normed("SAGEConv"), r"layer norm \(GraphNorm\) looks at"),
    "degrees counted by hand": (
        lambda: Counting("GraphConv"),
        r"layer one \(GraphConv\) looks at more than",
    ),
    "random numbers": (lambda: Random("SAGEConv"), "draws random numbers"),
    "one answer for all": (lambda: OneForAll("SAGEConv"), "a row for every node"),
}


def refused(folder):
    """What each network is told."""
    found = {}
    for name, (network, _) in REFUSED.items():
        try:
            predict(network(), folder / "parts", folder / f"out of {name}", samples=4)
            found[name] = "answered"
        except ModelError as error:
            found[name] = str(error)
    try:
        predict(Net("GCNConv"), folder / "parts", folder / "out", method="diagonal", samples=4)
    except MissingRuleError as error:
        found["degrees in closed form"] = str(error)
    return found


@pytest.fixture(scope="module")
def parts(tmp_path_factory):
    folder = tmp_path_factory.mktemp("refused")
    partition(double_graph(), folder / "parts", parts=2, by="hash")
    return folder


def test_networks_that_look_beyond_neighbours_are_refused_by_all_processes(parts):
    for told in in_processes(2, refused, parts):
        for name, (_, match) in REFUSED.items():
            assert re.search(match, told[name]), (name, told)
        assert "GCN's degrees" in told["degrees in closed form"]
    assert [file.name for file in parts.iterdir()] == ["parts"]


def of_own_weights(folder):
    network = Net("SAGEConv")
    with torch.no_grad():
        network.three.lin_l.bias += int(os.environ["RANK"])
    predict(network, folder / "parts", folder / "out", samples=4)


def test_processes_with_other_weights_are_refused(parts):
    for name, told, _ in in_processes(2, of_own_weights, parts):
        assert name == "ProcessError"
        assert "not started alike" in told


def answer(folder):
    predict(Net("SAGEConv"), folder / "parts", folder / "out", samples=4)


def test_a_missing_part_is_named_by_one_process_and_all_end(parts, tmp_path):
    shutil.copytree(parts / "parts", tmp_path / "parts")
    shutil.rmtree(tmp_path / "parts" / "part-00001")
    one, two = in_processes(2, answer, tmp_path)
    assert one[0] == "ProcessError"
    assert "process 1 of 2 cannot go on" in one[1]
    assert two[0] == "FileError"
    assert "part-00001: is missing" in two[1]
    with pytest.raises(FileError, match="part-00001: is missing"):
        answer(tmp_path)


def test_a_part_of_another_graph_is_refused(parts, tmp_path):
    other = double_graph()
    other.x = other.x + 1
    partition(other, tmp_path / "parts", parts=2, by="hash")
    shutil.rmtree(tmp_path / "parts" / "part-00000")
    shutil.copytree(parts / "parts" / "part-00000", tmp_path / "parts" / "part-00000")
    one, two = in_processes(2, answer, tmp_path)
    assert one[0] == "FileError"
    assert "not part 0 of this graph" in one[1]
    assert "process 0 of 2 cannot go on" in two[1]


def test_more_processes_than_parts_are_refused_by_all(parts):
    for name, told, _ in in_processes(3, answer, parts):
        assert name == "OptionError"
        assert "3 processes are too many for 2 parts" in told


class Dying(Net):
    """Ends its process, or fails, in the middle of the draws."""

    runs = 0

    def forward(self, x, edge_index):
        Dying.runs += 1
        if os.environ.get("RANK") == "1" and Dying.runs == 8:
            if self.kills:
                os.kill(os.getpid(), signal.SIGKILL)
            raise ValueError("no")
        return super().forward(x, edge_index)


def answer_by_dying(folder, kills):
    network = Dying("SAGEConv")
    network.kills = kills
    exchange.GRACE = 1
    predict(network, folder / "parts", folder / "out", samples=20)


@pytest.mark.parametrize("kills", [True, False])
def test_a_process_that_dies_or_fails_ends_the_others(parts, kills):
    start = time.monotonic()
    one, two = in_processes(2, answer_by_dying, parts, kills)
    assert time.monotonic() - start < 60
    assert one[0] == "ProcessError"
    assert ("process 1 of 2 has ended" if kills else "process 1 of 2 cannot go on") in one[1]
    assert two is None if kills else two[0] == "ModelError"
    assert not (parts / "out" / "answer.json").exists()


def test_what_is_not_followed_in_parts_is_said(parts, tmp_path):
    with pytest.raises(OptionError, match="method="):
        predict(Net("SAGEConv"), parts / "parts", tmp_path / "out", method="auto")
    (tmp_path / "file").write_text("")
    with pytest.raises(OptionError, match="not empty"):
        predict(Net("SAGEConv"), parts / "parts", tmp_path, samples=4)
    graph = small_graph()
    graph.edge_attr = torch.rand(graph.num_edges, 2)
    graph.edge_attr_var = 0.1
    partition(graph, tmp_path / "noisy", parts=2)
    with pytest.raises(OptionError, match="edge_attr"):
        predict(Net("SAGEConv").float(), tmp_path / "noisy", tmp_path / "out", samples=4)
