import json
import socket

import networkx as nx
import pytest
from torch_geometric.utils import to_networkx
from typer.testing import CliRunner

import varigraph as vg
from studies.comparison.tiny_computers import write_computers
from varigraph.choices import DATASETS
from varigraph.cli import app


@pytest.fixture(autouse=True)
def alone(monkeypatch, tmp_path):
    """No data sets, an empty cache and no network."""

    def refuse(*args, **options):
        raise AssertionError("nothing is to be downloaded")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv("VARIGRAPH_DATA", raising=False)


def data(*arguments):
    return CliRunner().invoke(app, ["data", *map(str, arguments)])


def test_all_are_listed_and_nothing_is_written(tmp_path):
    done = data("--json")
    assert done.exit_code == 0, done.output
    found = {each["name"]: each for each in json.loads(done.stdout)}
    assert list(found) == list(DATASETS)
    assert [name for name, each in found.items() if each["there"]] == ["cora"]
    assert found["cora"]["licence"] == "Apache-2.0"
    assert found["photo"]["looked_in"] == [str(tmp_path / "cache" / "varigraph")]
    assert not (tmp_path / "cache").exists()
    shown = data()
    assert shown.exit_code == 0
    assert "5,278" in shown.stdout
    assert "not there" in shown.stdout


def test_details_of_cora_agree_with_networkx_and_the_noise_that_is_added():
    found = json.loads(data("Cora", "--json").stdout)
    graph = vg.load("cora")
    nodes = to_networkx(graph, to_undirected=True)
    degrees = sorted(degree for _, degree in nx.degree(nodes))
    assert found["links"] == nodes.number_of_edges()
    assert (found["nodes"], found["features"], found["classes"]) == (2708, 1433, 7)
    assert found["degree"]["max"] == degrees[-1]
    assert found["degree"]["median"] == degrees[len(degrees) // 2]
    assert found["degree"]["mean"] == pytest.approx(sum(degrees) / len(degrees))
    assert found["degree"]["without_links"] == 0
    for each in found["classes_of_nodes"]:
        assert each["nodes"] == int((graph.y == each["class"]).sum())
        assert each["name"] == graph.class_names[each["class"]]
    for each in found["noise"]:
        noisy = vg.add_noise(graph, percent=each["percent"])
        assert each["variance"] == pytest.approx(noisy.x_var.item(), rel=1e-5)
        assert each["std"] == pytest.approx(each["variance"] ** 0.5)
    assert [each["percent"] for each in found["noise"]] == [2.5, 5, 12]


def test_details_are_shown():
    shown = data("cora").stdout
    assert "links of a node: 1 to 168, median 3, mean 3.90; 0 nodes have none" in shown
    assert "Neural_Networks" in shown
    assert "8.374e-05" in shown


def test_a_data_set_of_a_folder(tmp_path, monkeypatch):
    monkeypatch.setenv("VARIGRAPH_UNCHECKED", "computers")
    root = write_computers(tmp_path / "root")
    found = json.loads(data("computers", "--root", root, "--json").stdout)
    assert found["there"]
    assert found["place"] == str(root / "Computers" / "raw")
    assert sum(each["nodes"] for each in found["classes_of_nodes"]) == 60


def test_what_is_not_there_is_said_and_not_fetched(tmp_path):
    found = json.loads(data("photo", "--json").stdout)
    assert not found["there"]
    assert "degree" not in found
    shown = data("photo")
    assert shown.exit_code == 0
    assert f"looked in {tmp_path / 'cache' / 'varigraph'}" in shown.stdout


def test_half_a_data_set_is_not_there(tmp_path):
    (tmp_path / "root" / "PubMed" / "raw").mkdir(parents=True)
    found = json.loads(data("pubmed", "--root", tmp_path / "root", "--json").stdout)
    assert not found["there"]
    assert "lacks ind.pubmed.x" in found["place"]


def test_a_data_set_that_differs_is_refused(explained, tmp_path):
    root = write_computers(tmp_path / "root")
    assert "is not that of Computers: its SHA-256 is " in explained(
        "data", "computers", "--root", root
    )


def test_mistakes_are_explained(explained, tmp_path):
    assert "no data set is called 'coral'" in explained("data", "coral")
    assert "is not a folder" in explained("data", "--root", tmp_path / "nowhere")
