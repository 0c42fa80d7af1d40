import builtins
import json
import os
import signal
import subprocess
import sys
import time

import pytest
from typer.testing import CliRunner

from varigraph import __main__
from varigraph.cli import app
from varigraph.studies import run as study

QUICK = ["run", "cora", "--epochs", "1", "--samples", "2"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("runs") / "cora"


@pytest.fixture(scope="module")
def first(folder):
    return CliRunner().invoke(app, [*QUICK, "--out", str(folder)])


def test_run_prints_the_table_the_notes_and_last_the_folder(first, folder):
    lines = first.stdout.splitlines()
    assert first.exit_code == 0
    assert any("97.96" in line for line in lines)
    assert [line.split(":")[0] for line in lines[-3:-1]] == ["ours", "paper"]
    assert lines[-1] == str(folder)
    assert first.stderr == ""  # no progress bars where nobody watches


def test_a_second_run_says_what_it_reused_and_speaks_json(first, folder):
    again = CliRunner().invoke(app, [*QUICK, "--out", str(folder), "--json"])
    found = json.loads(again.stdout)
    assert found["folder"] == str(folder)
    assert [level["noise"] for level in found["levels"]] == [0, 2.5, 5, 12]
    spoken = CliRunner().invoke(app, [*QUICK, "--out", str(folder)])
    assert spoken.stdout.startswith("reused from an earlier run: model.pt")


def test_fresh_replaces_an_earlier_run(first, folder):
    other = [*QUICK, "--out", str(folder), "--seed", "1"]
    refused = CliRunner().invoke(app, other)
    assert refused.exit_code == 2
    assert "seed 0, not 1" in refused.stderr
    assert CliRunner().invoke(app, [*other, "--fresh"]).exit_code == 0


@pytest.mark.parametrize(
    "mistake", [["coral"], ["--samples", "-1"], ["--epochs", "0"], ["--links", "maybe"]]
)
def test_mistakes_are_explained_without_a_traceback(mistake, tmp_path):
    result = CliRunner().invoke(app, ["run", *mistake, "--out", str(tmp_path / "run")])
    assert result.exit_code == 2
    assert result.stderr.startswith("error: ")
    assert "remedy: " in result.stderr
    assert "Traceback" not in result.output


def test_ctrl_c_exits_with_130_and_says_what_is_kept(monkeypatch):
    def stop(*args, **options):
        raise KeyboardInterrupt

    monkeypatch.setattr(study, "run", stop)
    result = CliRunner().invoke(app, QUICK)
    assert result.exit_code == 130
    assert result.stderr.count("\n") == 1
    assert "kept" in result.stderr


@pytest.mark.skipif(os.name == "nt", reason="signals of POSIX")
def test_a_real_ctrl_c_leaves_no_half_written_file(tmp_path):
    command = [sys.executable, "-m", "varigraph", "run", "cora", "--out", str(tmp_path / "run")]
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


def test_version_and_help():
    version = CliRunner().invoke(app, ["--version"])
    assert version.exit_code == 0
    assert version.stdout.startswith("varigraph ")
    usage = CliRunner().invoke(app, ["run", "--help"])
    assert "Example: varigraph run cora" in usage.stdout
    assert "--fresh" in usage.stdout


@pytest.mark.parametrize("missing", ["typer", "rich"])
def test_what_is_not_installed_is_named(monkeypatch, capsys, missing):
    real = builtins.__import__

    def absent(name, *args, **options):
        if name == "varigraph.cli":
            raise ModuleNotFoundError(name=missing)
        return real(name, *args, **options)

    monkeypatch.setattr(builtins, "__import__", absent)
    with pytest.raises(SystemExit, match="2"):
        __main__.main()
    assert 'pip install "varigraph[cli]"' in capsys.readouterr().err
