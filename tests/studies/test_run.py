import json
import os

import numpy as np
import pytest
import torch

from varigraph.data import add_noise, load
from varigraph.errors import DatasetError, FileError, OptionError
from varigraph.files.whole_file import UnusedFileWarning
from varigraph.prediction import predict
from varigraph.prediction.sources.source import all_parts
from varigraph.quantify import score
from varigraph.studies import run as study
from varigraph.studies.config import quiet
from varigraph.studies.link_table import LinkRows
from varigraph.studies.saved_run import SavedRun

TOTALS = ("mean", "aleatoric", "epistemic")
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
        whole = {name: torch.from_numpy(stored[name]) for name in (*all_parts(), *TOTALS)}
    scored = {name: values[nodes] for name, values in whole.items()}
    assert nodes.equal(graph.test_mask.nonzero().flatten())
    parts = {name: scored[name] for name in all_parts()}
    assert score(scored["mean"], parts, graph.y[nodes]) == finished.levels[1].scores
    assert whole["epistemic"].equal(whole["weights"])
    data = whole["features"] + whole["links"] + whole["interactions"]
    torch.testing.assert_close(whole["aleatoric"], data)


def test_results_say_what_the_variance_is_due_to(finished):
    level = content(finished.folder)["levels"][1]
    assert level["noise"] == 12
    assert level["scores"]["aleatoric"] > 0
    assert level["scores"]["epistemic"] > 0
    assert set(level["scores"]["by_source"]) == set(all_parts())
    assert level["scores"]["by_source"]["links"] == 0
    assert level["scores"]["by_source"]["features"] > 0


def test_what_is_read_back_is_what_predict_says(finished):
    saved = SavedRun.read(finished.folder, root=None, progress=quiet)
    noisy = add_noise(load("cora"), percent=12)
    wanted = predict(finished.model, noisy, method="first-order")
    found = saved.prediction(12.0)
    for name in ("mean", "total", "plain"):
        torch.testing.assert_close(getattr(found, name), getattr(wanted, name))
    assert [row.name for row in found.least_trusted(10)] == [
        row.name for row in wanted.least_trusted(10)
    ]
    assert found.least_trusted(1)[0] == wanted.least_trusted(1)[0]


def test_predictions_of_another_method_are_made_again(finished, tmp_path, monkeypatch):
    monkeypatch.setattr(study, "METHOD", "diagonal")
    study.run("cora", out=tmp_path, **QUICK)
    monkeypatch.undo()
    with pytest.warns(UnusedFileWarning, match="predictions"):
        again = study.run("cora", out=tmp_path, **QUICK)
    assert again.reused == ("model.pt",)
    assert again.levels == finished.levels


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
    with pytest.warns(UnusedFileWarning, match="predictions-0"):
        mended = study.run("cora", out=tmp_path, **QUICK)
    assert mended.reused == ("model.pt", "predictions-12.npz")
    (tmp_path / "model.pt").write_bytes(b"damaged")
    with pytest.warns(UnusedFileWarning, match="model"):
        mended = study.run("cora", out=tmp_path, **QUICK)
    # The network came out the same to the last bit: its predictions are those of this network.
    assert mended.reused == ("predictions-0.npz", "predictions-12.npz")
    assert content(tmp_path) == content(finished.folder)


@pytest.fixture
def links_of_cora(tmp_path):
    """A file of made-up probabilities for Cora, and those of its edges."""
    graph = load("cora")
    graph.edge_prob = 0.4 + 0.5 * (graph.edge_index.sum(dim=0) % 10) / 10
    path = tmp_path / "links.csv"
    path.write_text(LinkRows.of(graph).csv())
    return path, graph.edge_prob


def test_links_of_a_file_cause_variance(finished, links_of_cora, tmp_path):
    path, prob = links_of_cora
    found = study.run("cora", out=tmp_path / "run", links=str(path), **QUICK)
    assert found.graph.edge_prob.equal(prob)
    assert all(level.scores.by_source["links"] > 1e-6 for level in found.levels)
    assert found.levels[0].scores.by_source["features"] == 0
    again = study.run("cora", out=tmp_path / "run", links=str(path), **QUICK)
    assert again.levels == found.levels
    assert again.reused == ("model.pt", "predictions-0.npz", "predictions-12.npz")


def test_another_content_of_the_file_needs_another_folder(links_of_cora, tmp_path, monkeypatch):
    def stop(*args, **options):
        raise KeyboardInterrupt

    path, _ = links_of_cora
    monkeypatch.setattr(study, "train", stop)
    with pytest.raises(KeyboardInterrupt):
        study.run("cora", out=tmp_path / "run", links=str(path), **QUICK)
    lines = path.read_text().splitlines()
    path.write_text("\n".join([*lines[:-1], lines[-1].rsplit(",", 1)[0] + ",0.123"]))
    with pytest.raises(OptionError, match="edge_prob"):
        study.run("cora", out=tmp_path / "run", links=str(path), **QUICK)
    with pytest.raises(OptionError, match="reading bernoulli, not weight"):
        study.run("cora", out=tmp_path / "run", links=str(path), reading="weight", **QUICK)


def test_links_by_a_method_are_computed_once_within_the_run(counted, tmp_path, monkeypatch):
    told = []
    options = {**QUICK, "noise": (0,), "samples": 0, "links": "hadamard"}
    found = study.run("cora", out=tmp_path, progress=lambda *step: told.append(step), **options)
    assert len(counted) == 5
    assert ("links", 100, 100) in told
    assert (tmp_path / "links" / "links.csv").is_file()
    assert found.levels[0].scores.by_source["links"] > 0
    again = study.run("cora", out=tmp_path, **options)
    assert len(counted) == 5
    assert again.levels == found.levels
    by_hand = study.run(
        "cora", out=tmp_path / "other", **{**options, "links": str(tmp_path / "links/links.csv")}
    )
    assert by_hand.levels == found.levels
    study.run("cora", out=tmp_path, fresh=True, **{**options, "links": None})
    assert not list((tmp_path / "links").iterdir())


def test_an_older_run_without_links_is_refused_by_name(finished, tmp_path):
    config = json.loads((finished.folder / "config.json").read_text())
    older = {name: value for name, value in config.items() if name not in {"reading", "edge_prob"}}
    (tmp_path / "config.json").write_text(json.dumps({**older, "links": "bernoulli"}))
    with pytest.raises(OptionError, match="links bernoulli, not None; reading None, not bernoulli"):
        study.run("cora", out=tmp_path, **QUICK)


def test_other_options_need_another_folder(finished):
    with pytest.raises(OptionError, match="epochs 1, not 2"):
        study.run("cora", out=finished.folder, **{**QUICK, "epochs": 2})


def test_mistakes_are_found_before_anything_is_written(tmp_path):
    with pytest.raises(DatasetError):
        study.run("coral", out=tmp_path / "run")
    with pytest.raises(OptionError):
        study.run("cora", out=tmp_path / "run", samples=-1)
    with pytest.raises(OptionError, match="no file and no method"):
        study.run("cora", out=tmp_path / "run", links="auto")
    (tmp_path / "links.txt").write_text("0 1 0.5\n")
    with pytest.raises(FileError, match=r"links\.txt: it lacks the link"):
        study.run("cora", out=tmp_path / "run", links=str(tmp_path / "links.txt"))
    assert not (tmp_path / "run").exists()


@pytest.mark.real_data
@pytest.mark.skipif("VARIGRAPH_DATA" not in os.environ, reason="VARIGRAPH_DATA is not set")
def test_pubmed(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    found = study.run("pubmed", out=tmp_path / "run", samples=2, noise=(5,), epochs=1)
    assert found.levels[0].scores.accuracy > 0.75
