import json

import pytest
import torch
from typer.testing import CliRunner

from cli.own_networks import network, small_graph, write_networks
from reporting.page.made_up import content_of
from varigraph.cli import app
from varigraph.studies.run import run as run_study

NONE = ["--explain", "0"]


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """The folder of a run that is not touched."""
    folder = tmp_path_factory.mktemp("runs") / "cora"
    run_study("cora", epochs=1, samples=2, out=folder)
    return folder


@pytest.fixture
def copied(run, tmp_path):
    """A copy of it, to be spoilt."""
    for path in run.iterdir():
        (tmp_path / path.name).write_bytes(path.read_bytes())
    return tmp_path


def report(*arguments):
    return CliRunner().invoke(app, ["report", *map(str, arguments)])


def test_the_page_of_a_network_of_ones_own(tmp_path):
    networks = write_networks(tmp_path)
    graph = small_graph(x_var=0.02, y=torch.arange(12) % 3, test_mask=torch.ones(12).bool())
    torch.save(network(networks).state_dict(), tmp_path / "weights.pt")
    torch.save(graph, tmp_path / "graph.pt")
    command = [f"{networks}:Net", tmp_path / "graph.pt", "--weights", tmp_path / "weights.pt"]
    page = tmp_path / "page.html"
    done = report(*command, "--explain", 2, "--audit", 12, "--out", page)
    assert done.exit_code == 0, done.output
    assert done.stdout.splitlines() == [str(page)]
    content = content_of(page)
    assert content["title"] == "Net on graph.pt"
    assert "against brute force, 12 draws" in content["making"]["audit"]
    assert len(content["causes"]["nodes"]) == 2
    told = json.loads(report(*command, "--json", "--out", page, *NONE).stdout)
    assert told == {"page": str(page), "noise": None, "warnings": []}


def test_a_run_is_not_predicted_anew(explained, run):
    said = explained("report", run, "--method", "diagonal", "--noise-var", "0.1")
    assert "is a run, and what it predicted is fixed: --method, --noise-var says nothing" in said


def test_the_page_of_a_run_agrees_with_its_results(run, tmp_path):
    done = report(run, "--out", tmp_path / "page.html", "--explain", 3)
    assert done.exit_code == 0, done.output
    assert done.stdout.splitlines() == [str(tmp_path / "page.html")]
    assert done.stderr == ""
    content = content_of(tmp_path / "page.html")
    levels = json.loads((run / "results.json").read_text())["levels"]
    scores = levels[-1]["scores"]
    cards = {card["label"]: card["value"] for card in content["headline"]["cards"]}
    assert cards["Right answers"] == f"{100 * scores['accuracy']:.1f} %"
    assert content["figures"]["noise"]["level"] == [level["noise"] for level in levels]
    for part, values in content["figures"]["noise"]["parts"].items():
        wanted = [level["scores"]["by_source"][part] for level in levels]
        assert values == pytest.approx(wanted, rel=1e-6)
    assert len(content["causes"]["nodes"]) == 3
    assert content["warnings"] == []
    assert dict(content["making"]["lines"])["Seed"] == "0"
    assert (tmp_path / "page.html").stat().st_size < 8e6


def test_the_page_goes_into_the_folder_and_the_noise_can_be_chosen(copied):
    done = report(copied, "--noise", 2.5, "--json", *NONE)
    told = json.loads(done.stdout)
    assert told == {"page": str(copied / "report.html"), "noise": 2.5, "warnings": []}
    assert content_of(copied / "report.html")["title"] == "cora, noise 2.5 %, seed 0"


def test_an_audit_is_shown_where_it_is_asked_for(copied):
    assert report(copied, "--audit", 4, *NONE).exit_code == 0
    said = content_of(copied / "report.html")["making"]["audit"]
    assert "first-order (class probabilities are rough behind masks that multiply)" in said
    assert ") against brute force" in said


def test_a_run_that_was_cut_short_says_so(copied):
    (copied / "predictions-12.npz").unlink()
    (copied / "predictions-5.npz").write_bytes(b"half")
    (copied / "results.json").unlink()
    done = report(copied, *NONE)
    assert done.exit_code == 0
    (warning,) = content_of(copied / "report.html")["warnings"]
    assert warning.startswith("This run was cut short: it has no predictions at noise 5, 12.")
    assert done.stdout.splitlines() == [warning, str(copied / "report.html")]
    assert content_of(copied / "report.html")["figures"]["noise"]["level"] == [0, 2.5]


def test_a_run_without_its_last_file_was_cut_short_too(copied):
    (copied / "results.json").unlink()
    assert "no results.json" in report(copied, *NONE).stdout


def test_a_run_without_predictions_is_refused(explained, copied):
    for path in copied.glob("predictions-*"):
        path.unlink()
    said = explained("report", copied)
    assert "holds no predictions" in said
    assert f"varigraph run cora --seed 0 --out {copied}" in said


@pytest.mark.parametrize(
    ("name", "text", "culprit"),
    [
        ("config.json", "{}", "holds no options of a run"),
        ("config.json", "not json", "holds no options of a run"),
        ("model.pt", "half", "does not hold the weights"),
    ],
)
def test_a_damaged_file_is_named(explained, copied, name, text, culprit):
    (copied / name).write_text(text)
    said = explained("report", copied)
    assert f"{copied / name}: {culprit}" in said


@pytest.mark.parametrize("option", [["--noise", "7"], ["--explain", "-1"], ["--out", "no/x.html"]])
def test_mistakes_are_explained(explained, run, option):
    explained("report", run, *option)
    assert not (run / "report.html").exists()


def test_a_folder_without_a_run_is_refused(explained, tmp_path):
    assert "is not a run" in explained("report", tmp_path)
