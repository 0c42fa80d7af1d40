"""Whole runs that are killed, raced, mixed up and starved of room."""

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
import torch
from typer.testing import CliRunner

import varigraph as vg
from files.processes import killed, started
from files.test_locks import HOLDING
from links.scorers import two_cliques
from varigraph.cli import app
from varigraph.errors import OptionError
from varigraph.files.whole_file import UnusedFileWarning
from varigraph.studies import run as study
from varigraph.studies.comparison import paper_study
from varigraph.studies.links import links_study
from varigraph.studies.sensitivity import sensitivity

pytestmark = pytest.mark.skipif(os.name == "nt", reason="signals and limits of POSIX")
QUICK = {"samples": 2, "noise": (0, 12), "epochs": 1}
COMMAND = ["run", "cora", "--samples", "2", "--epochs", "1"]
RUN = f"import sys; from varigraph.studies.run import run; run('cora', out=sys.argv[1], **{QUICK})"


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    return study.run("cora", out=tmp_path_factory.mktemp("runs") / "whole", **QUICK)


@pytest.fixture
def copied(finished, tmp_path):
    """A copy of a finished run, to be spoilt."""
    return shutil.copytree(finished.folder, tmp_path / "run")


def results(folder):
    return json.loads((folder / "results.json").read_text())


def test_predictions_under_the_name_of_another_level_are_made_anew(finished, copied):
    shutil.copy(copied / "predictions-0.npz", copied / "predictions-12.npz")
    with pytest.warns(UnusedFileWarning, match=r"predictions-12\.npz"):
        mended = study.run("cora", out=copied, **QUICK)
    assert mended.reused == ("model.pt", "predictions-0.npz")
    assert mended.levels == finished.levels


def test_pieces_of_a_run_with_other_options_are_made_anew(finished, copied, tmp_path):
    other = study.run("cora", out=tmp_path / "other", **{**QUICK, "epochs": 2})
    for name in ("model.pt", "predictions-12.npz"):
        shutil.copy(other.folder / name, copied / name)
    with pytest.warns(UnusedFileWarning):
        mended = study.run("cora", out=copied, **QUICK)
    assert mended.reused == ("predictions-0.npz",)
    assert results(copied) == results(finished.folder)


def test_a_run_of_an_earlier_version_is_made_anew_with_a_word(finished, copied):
    torch.save(finished.model.state_dict(), copied / "model.pt")
    for name in ("predictions-0.npz", "predictions-12.npz"):
        with np.load(copied / name) as stored:
            arrays = {key: stored[key] for key in stored.files if key != "origin"}
        np.savez(copied / name, **arrays)
    with pytest.warns(UnusedFileWarning) as said:
        mended = study.run("cora", out=copied, **QUICK)
    assert len(said) == 3
    assert mended.reused == ()
    assert mended.levels == finished.levels


def test_a_page_does_not_show_predictions_of_another_level(copied, tmp_path):
    shutil.copy(copied / "predictions-0.npz", copied / "predictions-12.npz")
    told = CliRunner().invoke(app, ["report", str(copied), "--explain", "0", "--json"])
    assert json.loads(told.stdout)["noise"] == 0
    assert f"note: {copied / 'predictions-12.npz'} is damaged, or other options" in told.stderr


def test_a_folder_in_use_is_refused_by_every_study(copied, tmp_path):
    before = {path.name: path.read_bytes() for path in copied.iterdir()}
    file = tmp_path / "links.txt"
    file.write_text("".join(f"{u} {v}\n" for u, v in two_cliques(8).t().tolist()))
    studies = [
        lambda: study.run("cora", out=copied, fresh=True, **{**QUICK, "epochs": 2}),
        lambda: sensitivity("cora", out=copied, fresh=True),
        lambda: links_study(str(file), out=copied, fresh=True),
        lambda: vg.link_probabilities(vg.read_links(file, score=False), folder=copied),
        lambda: paper_study((1,), quick=True, out=copied, fresh=True),
    ]
    process, _ = started(HOLDING, copied)
    try:
        for work in studies:
            with pytest.raises(OptionError, match=f"in use by process {process.pid}"):
                work()
    finally:
        killed(process)
    assert before.items() <= {path.name: path.read_bytes() for path in copied.iterdir()}.items()


def test_a_full_disk_is_explained_on_the_command_line(tmp_path, small_disk):
    with small_disk():
        told = CliRunner().invoke(app, [*COMMAND, "--out", str(tmp_path / "run")])
    assert told.exit_code == 2
    assert "model.pt: cannot be written: File too large" in told.stderr
    assert "remedy: make room" in told.stderr
    assert "Traceback" not in told.output
    assert sorted(os.listdir(tmp_path / "run")) == ["config.json", "training.json"]


def launched(folder):
    """A run in a process of its own, as far as the beginning of its training."""
    command = [sys.executable, "-c", RUN, str(folder)]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    deadline = time.monotonic() + 60
    while not (folder / "config.json").exists() and time.monotonic() < deadline:
        time.sleep(0.005)
    return process


def test_a_second_run_does_not_disturb_the_first(tmp_path):
    process = launched(tmp_path)
    os.kill(process.pid, signal.SIGSTOP)  # in the middle of its work
    try:
        other = [*COMMAND, "--out", str(tmp_path), "--seed", "1", "--fresh"]
        refused = CliRunner().invoke(app, other)
    finally:
        os.kill(process.pid, signal.SIGCONT)
    _, said = process.communicate(timeout=120)
    assert process.returncode == 0, said
    assert refused.exit_code == 2
    assert f"{tmp_path} is in use by process {process.pid}" in refused.stderr
    assert json.loads((tmp_path / "config.json").read_text())["seed"] == 0
    assert results(tmp_path)["title"].endswith("seed 0")
    again = study.run("cora", out=tmp_path, **QUICK)
    assert again.reused == ("model.pt", "predictions-0.npz", "predictions-12.npz")


def test_a_run_killed_twice_ends_as_one_that_was_not(finished, tmp_path):
    draw = random.Random(1)
    for _ in range(2):
        process = launched(tmp_path)
        time.sleep(draw.uniform(0, 1))
        process.kill()
        process.communicate(timeout=30)
    study.run("cora", out=tmp_path, **QUICK)
    assert results(tmp_path) == results(finished.folder)
    assert set(os.listdir(tmp_path)) == set(os.listdir(finished.folder))  # no drafts, no lock
