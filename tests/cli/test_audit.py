"""The audit of a network or a run, from the command line."""

import json

import pytest
import torch
from typer.testing import CliRunner

import varigraph as vg
from cli.own_networks import network, small_graph, write_networks
from varigraph.cli import app
from varigraph.data import load
from varigraph.studies import run as study
from varigraph.studies.link_table import LinkRows

QUICK = ["--samples", "40", "--method", "diagonal"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs") / "cora"
    study.run("cora", out=folder, samples=2, noise=(5,), epochs=1, seed=3)
    return folder


@pytest.fixture
def command(tmp_path):
    networks = write_networks(tmp_path)
    torch.save(network(networks).state_dict(), tmp_path / "weights.pt")
    torch.save(small_graph(x_var=0.02), tmp_path / "graph.pt")
    return [f"{networks}:Net", tmp_path / "graph.pt", "--weights", tmp_path / "weights.pt"]


def audit(*arguments):
    return CliRunner().invoke(app, ["audit", *map(str, arguments)])


def test_a_network_of_ones_own(command, tmp_path):
    done = audit(*command, "--samples", 500, "--masks", 7, "--seed", 2, "--nodes", "1,4", "--json")
    assert done.exit_code == 0, done.output
    found = json.loads(done.stdout)
    model, graph = network(tmp_path / "networks.py"), small_graph(x_var=0.02)
    wanted = vg.audit(model, graph, samples=500, masks=7, seed=2, nodes=[1, 4]).to_dict()
    assert found == {"title": "Net on graph.pt", **json.loads(json.dumps(wanted)), "notes": []}


def test_a_run_with_whatever_options_it_has(folder):
    before = (folder / "model.pt").read_bytes()
    result = audit(folder, *QUICK, "--nodes", "test")
    assert result.exit_code == 0, result.output
    lines = result.stdout.splitlines()
    title = "run cora on cora: diagonal against brute force, 40 draws, 3801 variances"
    assert lines[0] == title
    assert [line.split()[0] for line in lines[2:5]] == ["total", "features", "weights"]
    assert "too few draws to tell" in result.stdout
    assert "; take --samples " in result.stdout
    assert (folder / "model.pt").read_bytes() == before


@pytest.mark.parametrize(
    ("reading", "sources"),
    [
        ("bernoulli", ["total", "features", "links", "weights"]),
        ("weight", ["total", "features", "weights"]),  # a weight is a number, nothing is drawn
    ],
)
def test_uncertain_links_of_a_run_are_audited(tmp_path, reading, sources):
    graph = load("cora")
    graph.edge_prob = 0.4 + 0.5 * (graph.edge_index.sum(dim=0) % 10) / 10
    (tmp_path / "links.csv").write_text(LinkRows.of(graph).csv())
    links = str(tmp_path / "links.csv")
    options = {"samples": 2, "noise": (5,), "epochs": 1, "links": links, "reading": reading}
    study.run("cora", out=tmp_path / "run", **options)
    found = json.loads(audit(tmp_path / "run", "--samples", 10, "--json").stdout)
    assert [row["source"] for row in found["rows"]] == sources


@pytest.mark.parametrize("mistake", [["--method", "guess"], ["--samples", "1"]])
def test_mistakes_are_explained_without_a_traceback(explained, mistake, command):
    assert f"{mistake[0]} " in explained("audit", *command, *mistake)


def test_what_is_no_run_is_refused(explained, tmp_path):
    (tmp_path / "config.json").write_text("{}")
    assert "config.json: holds no options of a run" in explained("audit", tmp_path)
