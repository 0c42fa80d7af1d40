import json
import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
from typer.testing import CliRunner

import varigraph as vg
from varigraph.cli import app
from varigraph.studies import first_screen
from varigraph.studies.link_table import LinkRows

#: Shells start background jobs with the signal ignored, and children inherit that.
LISTENING = (
    "import signal; signal.signal(signal.SIGINT, signal.default_int_handler); "
    "from varigraph.__main__ import main; main()"
)
QUICK = ["run", "cora", "--epochs", "1", "--samples", "2", "--explain", "0"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("runs") / "cora"


@pytest.fixture(scope="module")
def first(folder):
    return CliRunner().invoke(app, [*QUICK, "--out", str(folder)])


def test_run_prints_one_screen_and_last_the_page(first, folder):
    lines = first.stdout.splitlines()
    assert first.exit_code == 0, first.output
    assert len(lines) <= 24
    assert max(map(len, lines[:-1])) <= 80
    assert lines[-1] == str(folder / "report.html")
    assert (folder / "report.html").is_file()
    assert "NLL" not in first.stdout
    said = first.stderr.splitlines()  # lines where nobody watches
    assert said[-1].startswith("page: 1 of 1, ")
    assert all(line.isprintable() for line in said)


def test_what_is_printed_is_what_the_stored_predictions_say(first, folder):
    graph = vg.load("cora")
    test, y = graph.test_mask, graph.y[graph.test_mask].numpy()
    with np.load(folder / "predictions-12.npz") as stored:
        mean, plain = stored["mean"][test], stored["plain"][test]
    words = " ".join(first.stdout.split())
    assert (
        f"543 test nodes the network now gets {100 * (mean.argmax(1) == y).mean():.1f} % right"
        in words
    )
    kept = plain.max(1).argsort(kind="stable")[54:]
    left = 100 * (plain.argmax(1) == y)[kept].mean()
    assert f"plain network's own confidence decides what to refuse, {left:.1f} %." in words


def test_a_second_run_says_what_it_reused_and_speaks_json(first, folder):
    again = CliRunner().invoke(app, [*QUICK, "--out", str(folder), "--json"])
    found = json.loads(again.stdout)
    assert found["folder"] == str(folder)
    assert [level["noise"] for level in found["levels"]] == [0, 2.5, 5, 12]
    assert "predicting: 4 of 4, " in again.stderr
    assert {level["scores"]["by_source"]["links"] for level in found["levels"]} == {0}
    assert found["first_screen"]["page"] == str(folder / "report.html")
    assert len(found["first_screen"]["answers"]) == 3
    spoken = CliRunner().invoke(app, [*QUICK, "--out", str(folder)])
    assert spoken.stdout == first.stdout
    assert "reused from an earlier run: model.pt" in spoken.stderr


def test_fresh_replaces_an_earlier_run(first, folder):
    other = [*QUICK, "--out", str(folder), "--seed", "1"]
    refused = CliRunner().invoke(app, other)
    assert refused.exit_code == 2
    assert "seed 0, not 1" in refused.stderr
    assert CliRunner().invoke(app, [*other, "--fresh"]).exit_code == 0


def test_links_of_a_file_get_their_column_and_their_share(tmp_path):
    graph = vg.load("cora")
    graph.edge_prob = 0.4 + 0.5 * (graph.edge_index.sum(dim=0) % 10) / 10
    path = tmp_path / "made-up.csv"
    path.write_text(LinkRows.of(graph).csv())
    command = [*QUICK, "--links", str(path), "--out", str(tmp_path / "run")]
    printed = CliRunner().invoke(app, command)
    assert printed.exit_code == 0, printed.output
    assert "links by made-up.csv, read as bernoulli" in " ".join(printed.stdout.split())
    found = json.loads(CliRunner().invoke(app, [*command, "--json"]).stdout)
    assert all(level["scores"]["by_source"]["links"] > 1e-6 for level in found["levels"])


@pytest.mark.parametrize(
    "mistake",
    [
        ["coral"],
        ["--samples", "-1"],
        ["--epochs", "0"],
        ["--links", "maybe"],
        ["--reading", "maybe"],
    ],
)
def test_mistakes_are_explained_without_a_traceback(explained, mistake, tmp_path):
    explained("run", *mistake, "--out", tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_ctrl_c_exits_with_130_and_says_what_is_kept(monkeypatch):
    def stop(*args, **options):
        raise KeyboardInterrupt

    monkeypatch.setattr(first_screen, "run", stop)
    result = CliRunner().invoke(app, QUICK)
    assert result.exit_code == 130
    assert result.stderr.count("\n") == 1
    assert "kept" in result.stderr


@pytest.mark.skipif(os.name == "nt", reason="signals of POSIX")
def test_a_real_ctrl_c_leaves_no_half_written_file(tmp_path):
    arguments = ["run", "cora", "--out", str(tmp_path / "run")]
    command = [sys.executable, "-c", LISTENING, *arguments]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    deadline = time.monotonic() + 60
    while not (tmp_path / "run" / "config.json").exists() and time.monotonic() < deadline:
        time.sleep(0.05)
    time.sleep(0.5)  # into the training
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=30)
    assert process.returncode == 130
    assert "kept" in said
    assert "Traceback" not in said
    assert [path.name for path in (tmp_path / "run").iterdir()] == ["config.json"]
