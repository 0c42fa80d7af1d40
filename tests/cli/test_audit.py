"""The audit of a run, from the command line."""

import json

import pytest
from typer.testing import CliRunner

from varigraph.cli import app
from varigraph.studies import run as study

QUICK = ["--samples", "40", "--method", "diagonal"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs") / "cora"
    study.run("cora", out=folder, samples=2, noise=(5,), epochs=1, seed=3)
    return folder


def test_it_takes_up_a_run_with_whatever_options_it_has(folder):
    before = (folder / "model.pt").read_bytes()
    result = CliRunner().invoke(app, ["audit", "--run", str(folder), *QUICK])
    assert result.exit_code == 0, result.output
    lines = result.stdout.splitlines()
    assert lines[0].startswith("cora, noise 12 %, test nodes: diagonal against brute force, 40")
    assert [line.split()[0] for line in lines[2:5]] == ["total", "features", "weights"]
    assert "too few draws to tell" in result.stdout
    assert lines[-1] == str(folder)
    assert (folder / "model.pt").read_bytes() == before


def test_it_speaks_json(folder):
    result = CliRunner().invoke(app, ["audit", "--run", str(folder), *QUICK, "--json"])
    found = json.loads(result.stdout)
    assert found["method"] == "diagonal"
    assert found["too_small"]
    assert found["folder"] == str(folder)


@pytest.mark.parametrize("mistake", [["coral"], ["--method", "guess"], ["--samples", "1"]])
def test_mistakes_are_explained_without_a_traceback(mistake, folder):
    where = [] if mistake == ["coral"] else ["--run", str(folder)]
    result = CliRunner().invoke(app, ["audit", *mistake, *where])
    assert result.exit_code == 2
    assert "\nerror: " in f"\n{result.stderr}"  # after what the run had to say
    assert "remedy: " in result.stderr


def test_a_folder_that_is_no_run_is_refused(tmp_path):
    (tmp_path / "config.json").write_text("{}")
    result = CliRunner().invoke(app, ["audit", "--run", str(tmp_path)])
    assert result.exit_code == 2
    assert "config.json: holds no options of a run" in result.stderr
