import csv
import json

import pytest
import torch
from typer.testing import CliRunner

import varigraph as vg
from cli.own_networks import network, small_graph, write_networks
from varigraph.cli import app

NAMES = [f"P{n}" for n in range(12)]


@pytest.fixture
def networks(tmp_path):
    return write_networks(tmp_path)


@pytest.fixture
def graph():
    found = small_graph(x_var=0.02, edge_prob=torch.full((30,), 0.8), node_names=NAMES)
    found.class_names = ["red", "green", "blue"]
    return found


@pytest.fixture
def command(networks, graph, tmp_path):
    torch.save(network(networks).state_dict(), tmp_path / "weights.pt")
    torch.save(graph, tmp_path / "graph.pt")
    return [f"{networks}:Net", tmp_path / "graph.pt", "--weights", tmp_path / "weights.pt"]


def explain(*arguments):
    return CliRunner().invoke(app, ["explain", *map(str, arguments)])


def test_it_says_what_the_library_says(command, networks, graph):
    done = explain(*command, "--node", "P4", "--json")
    assert done.exit_code == 0, done.output
    found = json.loads(done.stdout)
    wanted = vg.attribute(network(networks), graph, "P4").to_dict()
    assert found["by_source"] == pytest.approx(wanted["by_source"])
    assert (found["title"], found["node"], found["file"]) == ("Net on graph.pt", 4, None)
    assert [link["share"] for link in found["links"]] == pytest.approx(
        [link["share"] for link in wanted["links"]]
    )


def test_it_prints_causes_and_advice(command, networks, graph):
    done = explain(*command, "--node", "P4", "--output", "blue", "--of", "logit")
    lines = done.stdout.splitlines()
    assert lines[0].startswith("Net on graph.pt: node P4, logit of class blue: ")
    wanted = str(vg.attribute(network(networks), graph, "P4", output=2, of="logit"))
    assert done.stdout == f"Net on graph.pt: {wanted}\n"


def test_only_what_is_asked_about_is_considered(command):
    done = explain(*command, "--node", "P4", "--sources", "links", "--json")
    parts = json.loads(done.stdout)["by_source"]
    assert parts["links"] > 0
    assert not parts.get("features")
    assert not parts.get("weights")


def test_the_table_of_causes_adds_up(command, tmp_path):
    done = explain(*command, "--node", "P2", "--top", 100, "--out", tmp_path / "causes.csv")
    assert done.stdout.splitlines()[-1] == str(tmp_path / "causes.csv")
    with (tmp_path / "causes.csv").open(encoding="utf-8", newline="") as stream:
        rows = list(csv.DictReader(stream))
    share = {
        kind: sum(float(row["share"]) for row in rows if row["cause"] == kind)
        for kind in ("feature", "node", "link")
    }
    whole = {row["what"]: float(row["share"]) for row in rows if row["cause"] == "source"}
    assert share["feature"] == pytest.approx(whole["features"])
    assert share["link"] == pytest.approx(whole["links"])
    assert set(whole) <= {"features", "links", "weights", "interactions"}
    assert share["node"] == pytest.approx(share["feature"])
    link = next(row for row in rows if row["cause"] == "link")
    assert link["what"] == f"link P{link['from']} - P{link['to']}"
    assert float(link["probability"]) == pytest.approx(0.8)
    assert (link["node"], link["feature"]) == ("", "")


def test_without_a_node_all_answers_are_divided(command, networks, graph, tmp_path):
    table = tmp_path / "causes.csv"
    done = explain(*command, "--nodes", "P1,P4", "--out", table, "--json", "--top", 100)
    assert done.exit_code == 0, done.output
    found = json.loads(done.stdout)
    wanted = vg.attribute(network(networks), graph, nodes=[1, 4], top=100)
    assert (found["answers"], found["file"]) == (2, str(table))
    assert found["variance"] == pytest.approx(wanted.variance)
    with table.open(encoding="utf-8", newline="") as stream:
        rows = list(csv.DictReader(stream))
    for kind, causes in {"node": wanted.nodes, "feature": wanted.features}.items():
        shown = [float(row["variance"]) for row in rows if row["cause"] == kind]
        assert shown == pytest.approx([cause.variance for cause in causes])
    printed = explain(*command).stdout
    assert printed.startswith("Net on graph.pt: 12 answers, all probabilities: variance ")


@pytest.mark.parametrize(
    ("arguments", "culprit"),
    [
        (["--node", "P99"], "no node is called 'P99'"),
        (["--node", "P1", "--nodes", "P2"], "--node and --nodes are both given"),
        (["--method", "diagonal"], "--method 'diagonal' is unknown"),
        (["--node", "P1", "--output", "pink"], "no output is called pink"),
        (["--node", "P1", "--output", "7"], "--output 7 is not from 0 to 2"),
        (["--node", "P1", "--of", "luck"], "--of 'luck' is unknown"),
        (["--node", "P1", "--out", "causes.txt"], "neither .csv nor .parquet"),
        (["--node", "P1", "--noise-var", "1"], "the graph has an x_var of its own"),
    ],
)
def test_mistakes_are_explained_as_on_the_command_line(explained, command, arguments, culprit):
    assert culprit in explained("explain", *command, *arguments)


def test_without_a_graph_or_noise_it_says_what_is_missing(explained, networks, tmp_path):
    assert "there is no graph" in explained("explain", f"{networks}:Net", "--node", 1)
    torch.save(small_graph(), tmp_path / "exact.pt")
    exact = [f"{networks}:Net", tmp_path / "exact.pt", "--node", 1]
    only_weights = explain(*exact).stdout
    assert "weights: train on more nodes like it (100 % of the variance)" in only_weights
    assert "x is no number" in explained("explain", *exact[:2], "--node", "x")
