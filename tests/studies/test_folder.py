import json
import os

import pytest

from varigraph.errors import FileError, OptionError
from varigraph.studies.folder import claim, claimed, claimed_folds, read_config

CONFIG = {"dataset": "cora", "seed": 0, "versions": {"torch": "1", "python": "3"}}


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def claim_free(folder, config=CONFIG, **options):
    """Claims a folder and lets go of it again."""
    with claimed(folder, config, **options):
        pass


def test_a_run_may_come_back_to_its_folder(tmp_path):
    claim_free(tmp_path / "new" / "run")
    claim_free(tmp_path / "new" / "run")
    assert json.loads((tmp_path / "new" / "run" / "config.json").read_text()) == CONFIG


def test_another_run_is_refused_by_its_difference(tmp_path):
    claim(tmp_path, CONFIG)
    with pytest.raises(OptionError, match=r"seed 0, not 1[\s\S]*--fresh"):
        claim(tmp_path, {**CONFIG, "seed": 1})


def test_other_versions_are_named_one_by_one(tmp_path):
    claim(tmp_path, CONFIG)
    with pytest.raises(OptionError, match=r"run with torch 1, not 2\n"):
        claim(tmp_path, {**CONFIG, "versions": {"torch": "2", "python": "3"}})


@pytest.mark.parametrize("text", ["{", "[]", "3", "\x00", "[" * 100_000, '{"versions": 3}'])
def test_a_config_that_is_none_is_refused(tmp_path, text):
    (tmp_path / "config.json").write_text(text)
    with pytest.raises((FileError, OptionError), match=r"holds (no options of a|a) run"):
        claim(tmp_path, CONFIG)


@pytest.mark.skipif(os.name == "nt", reason="pipes of POSIX")
def test_a_pipe_in_the_place_of_the_config_is_not_waited_for(tmp_path):
    os.mkfifo(tmp_path / "config.json")
    with pytest.raises(FileError):
        read_config(tmp_path)


def test_what_cannot_be_removed_is_named(tmp_path):
    claim(tmp_path, CONFIG)
    (tmp_path / "model.pt").mkdir()
    with pytest.raises(OptionError, match=r"model\.pt cannot be removed"):
        claim(tmp_path, CONFIG, fresh=True)


def test_fresh_removes_what_a_run_wrote_and_nothing_else(tmp_path):
    claim(tmp_path, CONFIG)
    for name in ("model.pt", "predictions-5.npz", "notes.txt"):
        (tmp_path / name).touch()
    claim(tmp_path, {**CONFIG, "seed": 1}, fresh=True)
    assert names(tmp_path) == ["config.json", "notes.txt"]


def test_a_run_killed_while_it_replaces_another_leaves_the_folder_of_a_run(tmp_path, monkeypatch):
    def die(*arguments):
        raise SystemExit

    claim(tmp_path, CONFIG)
    (tmp_path / "notes.txt").touch()
    with monkeypatch.context() as patch:
        patch.setattr("varigraph.studies.folder.write_json", die)
        with pytest.raises(SystemExit):
            claim(tmp_path, {**CONFIG, "seed": 1}, fresh=True)
    claim(tmp_path, {**CONFIG, "seed": 1}, fresh=True)
    assert json.loads((tmp_path / "config.json").read_text())["seed"] == 1


def test_fresh_removes_the_folds_of_a_runs_links(tmp_path):
    claim(tmp_path, CONFIG)
    (tmp_path / "links").mkdir()
    for name in ("fold-1.npz", "links.tsv", "quality.json", "reliability.png", "notes.txt"):
        (tmp_path / "links" / name).touch()
    claim(tmp_path, CONFIG, fresh=True)
    assert names(tmp_path / "links") == ["notes.txt"]


def test_a_folder_of_links_that_no_study_wrote_is_left_alone(tmp_path):
    claim(tmp_path, CONFIG)
    (tmp_path / "links").mkdir()
    (tmp_path / "links" / "links.tsv").touch()
    claim(tmp_path, CONFIG, fresh=True)
    assert names(tmp_path / "links") == ["links.tsv"]


@pytest.mark.parametrize("fresh", [False, True])
def test_folds_go_to_a_folder_that_is_free_or_holds_some(tmp_path, fresh):
    with claimed_folds(tmp_path / "new", fresh=fresh):
        assert (tmp_path / "new").is_dir()
    assert not (tmp_path / "new").exists()  # nothing was put into it
    (tmp_path / "links.tsv").touch()
    with (
        pytest.raises(OptionError, match=r"not empty[\s\S]*--out"),
        claimed_folds(tmp_path, fresh=fresh),
    ):
        pass
    (tmp_path / "fold-1.npz").touch()
    with claimed_folds(tmp_path, fresh=fresh):
        pass
    assert names(tmp_path) == ([] if fresh else ["fold-1.npz", "links.tsv"])


@pytest.mark.parametrize("fresh", [False, True])
def test_a_folder_that_is_no_run_is_left_alone(tmp_path, fresh):
    (tmp_path / "model.pt").write_text("somebody's")
    with pytest.raises(OptionError, match="not a run"):
        claim(tmp_path, CONFIG, fresh=fresh)
    assert (tmp_path / "model.pt").read_text() == "somebody's"


def test_a_file_in_the_way_is_explained(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(OptionError, match="--out"):
        claim_free(tmp_path / "file")
