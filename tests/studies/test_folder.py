import json

import numpy as np
import pytest
import torch

from varigraph.errors import OptionError
from varigraph.studies import folder as files

CONFIG = {"dataset": "cora", "seed": 0, "versions": {"torch": "1", "python": "3"}}
ARRAYS = {"mean": np.arange(6.0).reshape(2, 3), "nodes": np.array([4, 5])}
STATE = {"weight": torch.randn(40, 30)}


def names(folder):
    return sorted(path.name for path in folder.iterdir())


@pytest.mark.parametrize("reason", [KeyboardInterrupt, ValueError, SystemExit])
def test_a_broken_off_write_leaves_the_old_file_and_nothing_else(tmp_path, reason):
    def break_off():
        with files.replacing(tmp_path / "a.txt") as stream:
            stream.write(b"half")
            raise reason

    files.write_text(tmp_path / "a.txt", "old")
    with pytest.raises(reason):
        break_off()
    assert (tmp_path / "a.txt").read_text() == "old"
    assert names(tmp_path) == ["a.txt"]


def test_numbers_that_json_lacks_are_not_written(tmp_path):
    with pytest.raises(ValueError, match="JSON"):
        files.write_json(tmp_path / "a.json", float("nan"))
    assert names(tmp_path) == []


def test_arrays_come_back(tmp_path):
    files.write_arrays(tmp_path / "a.npz", ARRAYS)
    found = files.read_arrays(tmp_path / "a.npz")
    assert {name: value.tolist() for name, value in found.items()} == {
        name: value.tolist() for name, value in ARRAYS.items()
    }


def test_weights_come_back(tmp_path):
    files.write_weights(tmp_path / "a.pt", STATE)
    assert files.read_weights(tmp_path / "a.pt")["weight"].equal(STATE["weight"])


def damage(path, how):
    content = bytearray(path.read_bytes())
    if how == "flipped":
        content[len(content) // 2] ^= 0xFF
    path.write_bytes({"cut": content[: len(content) // 2], "empty": b""}.get(how, content))


@pytest.mark.parametrize("how", ["cut", "empty", "flipped"])
def test_damaged_files_are_not_trusted(tmp_path, how):
    files.write_arrays(tmp_path / "a.npz", {"mean": np.ones((50, 20))})
    files.write_weights(tmp_path / "a.pt", STATE)
    for path in tmp_path.iterdir():
        damage(path, how)
    assert files.read_arrays(tmp_path / "a.npz") is None
    assert files.read_weights(tmp_path / "a.pt") is None


def test_pickles_are_not_read(tmp_path):
    with (tmp_path / "a.npz").open("wb") as stream:
        np.savez(stream, mean=np.array([{"any": "object"}]))
    torch.save({"model": torch.nn.Linear(1, 1)}, tmp_path / "a.pt")
    assert files.read_arrays(tmp_path / "a.npz") is None
    assert files.read_weights(tmp_path / "a.pt") is None


def test_a_run_may_come_back_to_its_folder(tmp_path):
    files.claim(tmp_path / "new" / "run", CONFIG)
    files.claim(tmp_path / "new" / "run", CONFIG)
    assert json.loads((tmp_path / "new" / "run" / "config.json").read_text()) == CONFIG


def test_another_run_is_refused_by_its_difference(tmp_path):
    files.claim(tmp_path, CONFIG)
    with pytest.raises(OptionError, match=r"seed 0, not 1[\s\S]*--fresh"):
        files.claim(tmp_path, {**CONFIG, "seed": 1})


def test_other_versions_are_named_one_by_one(tmp_path):
    files.claim(tmp_path, CONFIG)
    with pytest.raises(OptionError, match=r"run with torch 1, not 2\n"):
        files.claim(tmp_path, {**CONFIG, "versions": {"torch": "2", "python": "3"}})


def test_a_config_that_cannot_be_read_is_refused(tmp_path):
    (tmp_path / "config.json").write_text("{")
    with pytest.raises(OptionError, match="cannot be read"):
        files.claim(tmp_path, CONFIG)


def test_fresh_removes_what_a_run_wrote_and_nothing_else(tmp_path):
    files.claim(tmp_path, CONFIG)
    for name in ("model.pt", "predictions-5.npz", "notes.txt"):
        (tmp_path / name).touch()
    files.claim(tmp_path, {**CONFIG, "seed": 1}, fresh=True)
    assert names(tmp_path) == ["config.json", "notes.txt"]


def test_fresh_removes_the_folds_of_a_runs_links(tmp_path):
    files.claim(tmp_path, CONFIG)
    (tmp_path / "links").mkdir()
    for name in ("fold-1.npz", "links.tsv", "quality.json", "reliability.png", "notes.txt"):
        (tmp_path / "links" / name).touch()
    files.claim(tmp_path, CONFIG, fresh=True)
    assert names(tmp_path / "links") == ["notes.txt"]


def test_a_folder_of_links_that_no_study_wrote_is_left_alone(tmp_path):
    files.claim(tmp_path, CONFIG)
    (tmp_path / "links").mkdir()
    (tmp_path / "links" / "links.tsv").touch()
    files.claim(tmp_path, CONFIG, fresh=True)
    assert names(tmp_path / "links") == ["links.tsv"]


@pytest.mark.parametrize("fresh", [False, True])
def test_folds_go_to_a_folder_that_is_free_or_holds_some(tmp_path, fresh):
    files.claim_folds(tmp_path / "new", fresh=fresh)
    assert not (tmp_path / "new").exists()
    (tmp_path / "links.tsv").touch()
    with pytest.raises(OptionError, match=r"not empty[\s\S]*--out"):
        files.claim_folds(tmp_path, fresh=fresh)
    (tmp_path / "fold-1.npz").touch()
    files.claim_folds(tmp_path, fresh=fresh)
    assert names(tmp_path) == ([] if fresh else ["fold-1.npz", "links.tsv"])


@pytest.mark.parametrize("fresh", [False, True])
def test_a_folder_that_is_no_run_is_left_alone(tmp_path, fresh):
    (tmp_path / "model.pt").write_text("somebody's")
    with pytest.raises(OptionError, match="not a run"):
        files.claim(tmp_path, CONFIG, fresh=fresh)
    assert (tmp_path / "model.pt").read_text() == "somebody's"


def test_a_file_in_the_way_is_explained(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(OptionError, match="--out"):
        files.claim(tmp_path / "file", CONFIG)
