import json
import os

import numpy as np
import pytest
import torch

from varigraph.data import load
from varigraph.errors import DatasetError, OptionError
from varigraph.quantify import score
from varigraph.studies import run as study

QUICK = {"samples": 2, "noise": (0, 12), "epochs": 1}


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    return study.run("cora", out=tmp_path_factory.mktemp("runs") / "whole", **QUICK)


def content(folder):
    return json.loads((folder / "results.json").read_text())


def test_the_folder_holds_everything(finished):
    assert sorted(path.name for path in finished.folder.iterdir()) == [
        *("config.json", "model.pt", "predictions-0.npz", "predictions-12.npz"),
        *("results.json", "table.md", "training.json", "uncertainty.png"),
    ]
    assert json.loads((finished.folder / "config.json").read_text())["seed"] == 0
    assert (finished.folder / "uncertainty.png").read_bytes().startswith(b"\x89PNG")
    assert "12 %" in (finished.folder / "table.md").read_text()


def test_scores_are_those_of_the_stored_predictions_on_test_nodes(finished):
    graph = load("cora")
    with np.load(finished.folder / "predictions-12.npz", allow_pickle=False) as stored:
        nodes = torch.from_numpy(stored["test_nodes"])
        parts = [
            torch.from_numpy(stored[name])[nodes] for name in ("mean", "aleatoric", "epistemic")
        ]
    assert nodes.equal(graph.test_mask.nonzero().flatten())
    assert score(*parts, graph.y[nodes]) == finished.levels[1].scores


def test_results_stand_next_to_the_papers(finished):
    level = content(finished.folder)["levels"][1]
    assert level["noise"] == 12
    assert level["published"]["accuracy"] == 0.6122
    assert level["scores"]["aleatoric"] > 0
    assert level["scores"]["epistemic"] > 0


def test_a_second_run_reuses_everything(finished):
    again = study.run("Cora", out=finished.folder, **QUICK)
    assert again.reused == ("model.pt", "predictions-0.npz", "predictions-12.npz")
    assert again.levels == finished.levels


def test_a_run_broken_off_after_training_goes_on_and_finds_the_same(
    finished, tmp_path, monkeypatch
):
    def stop(*args, **options):
        raise KeyboardInterrupt

    monkeypatch.setattr(study, "predict", stop)
    with pytest.raises(KeyboardInterrupt):
        study.run("cora", out=tmp_path, **QUICK)
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        *("config.json", "model.pt", "training.json")
    ]
    monkeypatch.undo()
    monkeypatch.setattr(study, "train", stop)
    resumed = study.run("cora", out=tmp_path, **QUICK)
    assert resumed.reused == ("model.pt",)
    assert content(tmp_path) == content(finished.folder)


def test_damaged_pieces_are_made_again(finished, tmp_path):
    study.run("cora", out=tmp_path, **QUICK)
    (tmp_path / "predictions-0.npz").write_bytes(b"damaged")
    mended = study.run("cora", out=tmp_path, **QUICK)
    assert mended.reused == ("model.pt", "predictions-12.npz")
    (tmp_path / "model.pt").write_bytes(b"damaged")
    mended = study.run("cora", out=tmp_path, **QUICK)
    assert mended.reused == ()  # predictions of a network that is gone are not trusted either
    assert content(tmp_path) == content(finished.folder)


def test_other_options_need_another_folder(finished):
    with pytest.raises(OptionError, match="epochs 1, not 2"):
        study.run("cora", out=finished.folder, **{**QUICK, "epochs": 2})


def test_mistakes_are_found_before_anything_is_written(tmp_path):
    with pytest.raises(DatasetError):
        study.run("coral", out=tmp_path / "run")
    with pytest.raises(OptionError):
        study.run("cora", out=tmp_path / "run", samples=-1)
    assert not (tmp_path / "run").exists()


@pytest.mark.real_data
@pytest.mark.skipif("VARIGRAPH_DATA" not in os.environ, reason="VARIGRAPH_DATA is not set")
def test_pubmed(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    found = study.run("pubmed", out=tmp_path / "run", samples=2, noise=(5,), epochs=1)
    assert found.levels[0].scores.accuracy > 0.75
    assert found.levels[0].published.accuracy == 0.807
