import csv
import json

import pytest

from varigraph.data import load
from varigraph.errors import DatasetError, OptionError
from varigraph.studies import sensitivity as study
from varigraph.studies.link_table import LinkRows

QUICK = {"noise": (8, 0), "epochs": 1, "samples": 2}


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    return study.sensitivity("cora", out=tmp_path_factory.mktemp("runs") / "whole", **QUICK)


@pytest.fixture(scope="module")
def link_file(tmp_path_factory):
    """A file of made-up probabilities for Cora."""
    graph = load("cora")
    graph.edge_prob = 0.4 + 0.5 * (graph.edge_index.sum(dim=0) % 10) / 10
    path = tmp_path_factory.mktemp("links") / "made-up.csv"
    path.write_text(LinkRows.of(graph).csv())
    return path


def test_the_folder_holds_everything(finished):
    assert sorted(path.name for path in finished.folder.iterdir()) == [
        *("config.json", "model.pt"),
        *("predictions-noise-0-doubt-0.npz", "predictions-noise-8-doubt-0.npz"),
        *("results.json", "sensitivity.csv", "sensitivity.png", "table.md", "training.json"),
    ]
    assert (finished.folder / "sensitivity.png").read_bytes().startswith(b"\x89PNG")
    assert "| 8 % |" in (finished.folder / "table.md").read_text()


def test_json_and_csv_have_the_numbers_of_the_outcome(finished):
    held = json.loads((finished.folder / "results.json").read_text())
    assert held == study.results(finished)
    assert [level["level"] for level in held["noise"]] == [0, 8]
    assert "doubt" not in held
    with (finished.folder / "sensitivity.csv").open() as stream:
        lines = list(csv.DictReader(stream))
    assert [float(line["total"]) for line in lines] == [r.total for r in finished.ladders["noise"]]


def test_noise_makes_variance(finished):
    clean, noisy = finished.ladders["noise"]
    assert clean.by_source["features"] == clean.input_var == 0
    assert clean.by_source["weights"] > 0
    assert noisy.by_source["features"] > 0
    assert noisy.total > clean.total
    assert clean.by_source["links"] == noisy.by_source["links"] == 0


def test_a_second_call_uses_everything_again(finished, monkeypatch):
    monkeypatch.setattr("varigraph.studies.run.train", None)
    monkeypatch.setattr("varigraph.studies.sensitivity.predict", None)
    again = study.sensitivity("Cora", out=finished.folder, **{**QUICK, "noise": (0, 8)})
    assert again.ladders == finished.ladders
    assert again.reused[0] == "model.pt"
    assert len(again.reused) == 3


def test_a_study_broken_off_after_training_goes_on_and_finds_the_same(
    finished, tmp_path, monkeypatch
):
    def stop(*args, **options):
        raise KeyboardInterrupt

    monkeypatch.setattr("varigraph.studies.sensitivity.predict", stop)
    with pytest.raises(KeyboardInterrupt):
        study.sensitivity("cora", out=tmp_path, **QUICK)
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        *("config.json", "model.pt", "training.json")
    ]
    monkeypatch.undo()
    resumed = study.sensitivity("cora", out=tmp_path, **QUICK)
    assert resumed.reused == ("model.pt",)
    assert resumed.ladders == finished.ladders


def test_uncertain_links_get_a_ladder_of_doubt(finished, link_file, tmp_path):
    found = study.sensitivity("cora", out=tmp_path, links=str(link_file), doubt=(100, 0), **QUICK)
    assert [rung.level for rung in found.ladders["doubt"]] == [0, 100]
    certain, doubted = found.ladders["doubt"]
    # The network was trained without the probabilities, so that this is where both studies meet.
    assert certain.by_source == finished.ladders["noise"][0].by_source
    assert certain.cross_entropy == finished.ladders["noise"][0].cross_entropy
    assert doubted.by_source["links"] > 0
    assert all(rung.by_source["links"] > 0 for rung in found.ladders["noise"])
    text = (tmp_path / "table.md").read_text()
    assert text.index("growing noise") < text.index("growing doubt")
    assert text.count("doubt t:") == 1
    assert "links by made-up.csv" in found.title


def test_links_by_a_method_are_computed_once(counted, tmp_path):
    options = {**QUICK, "noise": (0,), "links": "hadamard", "doubt": (50,), "method": "diagonal"}
    first = study.sensitivity("cora", out=tmp_path, **options)
    assert len(counted) == 5
    assert first.ladders["doubt"][0].by_source["links"] > 0
    assert study.sensitivity("cora", out=tmp_path, **options).ladders == first.ladders
    assert len(counted) == 5


def test_other_options_need_another_folder_or_replace_it(finished, tmp_path):
    with pytest.raises(OptionError, match="method first-order, not diagonal"):
        study.sensitivity("cora", out=finished.folder, method="diagonal", **QUICK)
    study.sensitivity("cora", out=tmp_path, **QUICK)
    other = {**QUICK, "noise": (2,)}
    study.sensitivity("cora", out=tmp_path, fresh=True, **other)
    assert [path.name for path in tmp_path.glob("*.npz")] == ["predictions-noise-2-doubt-0.npz"]


@pytest.mark.parametrize(
    ("dataset", "options", "error"),
    [
        ("coral", {}, DatasetError),
        ("cora", {"method": "guess"}, OptionError),
        ("cora", {"noise": (-1,)}, OptionError),
        ("cora", {"links": "maybe"}, OptionError),
        ("cora", {"links": "seal", "doubt": (120,)}, OptionError),
    ],
)
def test_mistakes_are_found_before_anything_is_written(dataset, options, error, tmp_path):
    with pytest.raises(error):
        study.sensitivity(dataset, out=tmp_path / "run", **options)
    assert not (tmp_path / "run").exists()
