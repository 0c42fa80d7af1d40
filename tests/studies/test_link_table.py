import pytest
import torch
from torch_geometric.data import Data

import varigraph as vg
from links.scorers import random_graph
from varigraph.errors import FileError
from varigraph.studies.link_table import LinkRows, matched_probabilities


@pytest.fixture
def graph():
    """Thirty nodes, some links listed in both directions, one of a node to itself."""
    edges = torch.cat([random_graph(30, 60), torch.tensor([[4], [4]])], dim=1)
    low, high = edges.min(dim=0).values, edges.max(dim=0).values
    prob = 1 / (2 + low + 31 * high).float()
    prob[-1] = 1
    return Data(edge_index=edges, edge_prob=prob, num_nodes=30)


@pytest.fixture
def path(graph, tmp_path):
    path = tmp_path / "links.csv"
    path.write_text(LinkRows.of(graph).csv())
    return path


def refusal(path, graph):
    with pytest.raises(FileError) as caught:
        matched_probabilities(path, graph)
    assert str(path) in caught.value.problem
    return caught.value


def test_every_link_stands_in_one_line(graph, path):
    first, *lines = path.read_text().splitlines()
    assert first == "from,to,computed"
    pairs = [tuple(map(int, line.split(",")[:2])) for line in lines]
    expected = {tuple(sorted(pair)) for pair in graph.edge_index.t().tolist()} - {(4, 4)}
    assert sorted(pairs) == sorted(expected)


def test_the_least_likely_links_come_first(path):
    likely = [float(line.split(",")[2]) for line in path.read_text().splitlines()[1:]]
    assert likely == sorted(likely)
    assert likely[0] < likely[-1]


def test_measured_scores_are_kept_and_disagreement_comes_first(graph, tmp_path):
    edges = torch.tensor([[0, 1, 2, 0], [1, 2, 3, 3]])
    graph = Data(edge_index=edges, num_nodes=4, node_names=["a", "b", "c", "d"])
    graph.edge_prob = torch.tensor([0.9, 0.1, 0.2, 0.5])
    rows = LinkRows.of(graph, measured=torch.tensor([0.7, 0.75, 0.3, 1.0]))
    assert rows.disagreeing == 1
    path = tmp_path / "links.csv"
    path.write_text(rows.csv())
    assert path.read_text().splitlines() == [
        "from,to,measured,computed,difference,disagrees",
        "b,c,0.75,0.1,-0.65,yes",
        "a,d,1.0,0.5,-0.5,no",
        "a,b,0.7,0.9,0.2,no",
        "c,d,0.3,0.2,-0.1,no",
    ]
    read = vg.read_links(path)
    assert read.edge_prob[:4].tolist() == pytest.approx([0.75, 1, 0.7, 0.3])
    assert vg.read_links(path, score="computed").edge_prob[0] == pytest.approx(0.1)


def test_without_scores_nothing_disagrees(graph):
    assert LinkRows.of(graph).disagreeing is None


def test_what_is_written_is_found_again_to_the_last_digit(graph, path):
    found, loss = matched_probabilities(path, graph)
    assert found.equal(graph.edge_prob)
    assert loss is None


def test_links_are_found_whatever_their_order_and_direction(graph, path):
    lines = path.read_text().splitlines()[1:]
    swapped = [
        ",".join((*reversed(line.split(",")[:2]), line.split(",")[2])) for line in lines[::-1]
    ]
    path.write_text("\n".join(["a,b,probability", *swapped, "4,4,0.5"]))
    found, loss = matched_probabilities(path, graph)
    assert found.equal(graph.edge_prob)
    assert loss == "links.csv: 61 lines, 60 links, 1 self link dropped"


@pytest.mark.parametrize(
    "names",
    [
        ["#1", "a b", 'say "x"'],
        ["5' end", "tab\there", "é"],
        ["x,y", "'q'", "0"],
        ["=1+2", "'=1", "-x"],
    ],
)
def test_names_survive_whatever_they_look_like(names, tmp_path):
    edges = torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]])
    graph = Data(edge_index=edges, edge_prob=torch.full((4,), 0.5), num_nodes=3, node_names=names)
    path = tmp_path / "links.csv"
    path.write_text(LinkRows.of(graph).csv(), encoding="utf-8")
    read = vg.read_links(path)
    assert read.node_names == names
    assert read.edge_prob.tolist() == [0.5] * 4


def test_a_link_that_the_file_lacks_is_named(graph, path):
    lines = path.read_text().splitlines()
    a, b, _ = lines[7].split(",")
    path.write_text("\n".join(lines[:7] + lines[8:]))
    error = refusal(path, graph)
    assert f"lacks the link {a} - {b} of the graph" in error.problem
    path.write_text("\n".join(lines[:7] + lines[9:]))
    assert "and 1 more" in refusal(path, graph).problem


def test_a_link_of_score_zero_counts_as_missing(graph, path):
    lines = path.read_text().splitlines()
    a, b, _ = lines[7].split(",")
    lines[7] = f"{a},{b},0"
    path.write_text("\n".join(lines))
    error = refusal(path, graph)
    assert f"lacks the link {a} - {b}" in error.problem
    assert "1 in the file have the score 0" in error.remedy


def test_a_link_that_the_graph_lacks_is_named(graph, path):
    linked = {tuple(pair) for pair in graph.edge_index.t().tolist()}
    a, b = next((a, b) for a in range(30) for b in range(a + 1, 30) if (a, b) not in linked)
    path.write_text(path.read_text() + f"{b},{a},0.5\n")
    assert f"has the link {a} - {b} that the graph lacks" in refusal(path, graph).problem


@pytest.mark.parametrize("name", ["30", "-1", "P53", "07", "1.0"])
def test_a_node_that_does_not_exist_is_named(graph, path, name):
    path.write_text(path.read_text() + f"3,{name},0.5\n")
    error = refusal(path, graph)
    assert f"no node '{name}'" in error.problem
    assert "0 to 29" in error.problem
