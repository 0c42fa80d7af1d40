import json

import pytest
from typer.testing import CliRunner

import varigraph as vg
from varigraph.cli import app
from varigraph.studies.link_table import LinkRows

COMMAND = ["study", "sensitivity", "cora", "--epochs", "1", "--noise", "0", "--noise", "4"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("runs") / "cora"


@pytest.fixture(scope="module")
def first(folder):
    return CliRunner().invoke(app, [*COMMAND, "--out", str(folder)])


def test_it_prints_the_table_the_notes_and_last_the_folder(first, folder):
    assert first.exit_code == 0, first.output
    lines = first.stdout.splitlines()
    assert lines[0].startswith("cora, first-order, seed 0: growing noise")
    rows = [line.split() for line in lines if line.split()[1:2] == ["%"]]
    assert [row[0] for row in rows] == ["0", "4"]
    assert "…" not in first.stdout  # everything fits
    assert lines[-1] == str(folder)
    assert first.stderr.splitlines()[-1].startswith("predicting: 2 of 2, ")


def test_a_second_call_says_what_it_reused_and_speaks_json(first, folder):
    again = CliRunner().invoke(app, [*COMMAND, "--out", str(folder)])
    assert again.stdout.startswith("reused from an earlier run: model.pt, predictions-noise-0")
    spoken = CliRunner().invoke(app, [*COMMAND, "--out", str(folder), "--json"])
    found = json.loads(spoken.stdout)
    assert found["folder"] == str(folder)
    assert [rung["level"] for rung in found["noise"]] == [0, 4]
    assert found["noise"][1]["by_source"]["features"] > 0


def test_links_fit_in_eighty_columns_too(tmp_path, folder, first):
    graph = vg.load("cora")
    graph.edge_prob = 0.4 + 0.5 * (graph.edge_index.sum(dim=0) % 10) / 10
    path = tmp_path / "made-up.csv"
    path.write_text(LinkRows.of(graph).csv())
    links = ["--links", str(path), "--doubt", "50", "--out", str(tmp_path / "run")]
    printed = CliRunner().invoke(app, [*COMMAND, *links])
    assert printed.exit_code == 0, printed.output
    assert "growing doubt" in " ".join(printed.stdout.split())
    assert "…" not in printed.stdout
    assert any(line.split()[:2] == ["50", "%"] for line in printed.stdout.splitlines())


@pytest.mark.parametrize(
    "mistake",
    [["coral"], ["--noise", "-1"], ["--method", "guess"], ["--links", "maybe"], ["--epochs", "0"]],
)
def test_mistakes_are_explained_without_a_traceback(explained, mistake, tmp_path):
    explained("study", "sensitivity", *mistake, "--out", tmp_path / "run")
    assert not (tmp_path / "run").exists()
