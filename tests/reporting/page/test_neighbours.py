import networkx
import pytest
import torch
from torch_geometric.data import Data
from torch_geometric.utils import to_torch_csr_tensor

from reporting.page.made_up import made_up
from varigraph.reporting.page import nodes as module
from varigraph.reporting.page.nodes import neighbours


def test_each_link_is_there_once_with_its_probability():
    _, graph = made_up()
    wanted = networkx.Graph()
    ends = graph.edge_index.t().tolist()
    for (one, other), prob in zip(ends, graph.edge_prob.tolist(), strict=True):
        wanted.add_edge(one, other, prob=float(f"{prob:.3g}"))
    found = neighbours(graph)
    pairs = zip(found["source"], found["target"], strict=True)
    shown = dict(zip(map(frozenset, pairs), found["prob"], strict=True))
    assert found["count"] == len(shown) == wanted.number_of_edges()
    for one, other, prob in wanted.edges(data="prob"):
        assert shown[frozenset((one, other))] == pytest.approx(prob)
    assert found["oneWay"] is None


@pytest.mark.filterwarnings("ignore:Sparse")  # by torch, once, when such a tensor is made
@pytest.mark.parametrize("sparse", [False, True])
def test_direction_is_kept_and_loops_are_left_out(sparse):
    ends = torch.tensor([[0, 1, 1, 2, 2], [1, 0, 2, 2, 0]])
    graph = Data(x=torch.zeros(3, 1), edge_index=ends)
    if sparse:
        graph = Data(x=graph.x, adj_t=to_torch_csr_tensor(ends.flip(0), size=3))
    found = neighbours(graph)
    lines = zip(found["source"], found["target"], found["oneWay"], strict=True)
    assert sorted(lines) == [(0, 1, 0), (1, 2, 1), (2, 0, 1)]
    assert found["prob"] is None


def test_too_many_links_are_counted_only(monkeypatch):
    monkeypatch.setattr(module, "MOST", 5)
    _, graph = made_up()
    assert neighbours(graph) == {"count": graph.num_edges // 2}
