import json

import numpy as np
import pytest
import torch

from varigraph.files.whole_file import UnusedFileWarning
from varigraph.studies.folder import Pieces
from varigraph.studies.own_model.saved_files import read_weights

OPTIONS = {"dataset": "cora", "seed": 0, "noise": [0.0, 12.0], "links": None}
ARRAYS = {"mean": np.arange(6.0).reshape(2, 3), "nodes": np.array([4, 5])}
STATE = {"weight": torch.randn(40, 30), "count": torch.tensor(3)}


@pytest.fixture
def pieces(tmp_path):
    """A folder with one piece of each kind."""
    pieces = Pieces(tmp_path, OPTIONS)
    pieces.write_arrays("a.npz", ARRAYS, network="one")
    pieces.write_weights("a.pt", STATE)
    pieces.write_record("deep/er/a.json", {"seconds": 1.5})
    return pieces


def read(pieces, name, network="one"):
    if name.endswith(".npz"):
        return pieces.read_arrays(name, network=network)
    return pieces.read_weights(name) if name.endswith(".pt") else pieces.read_record(name)


def refused(pieces, name, **options):
    with pytest.warns(UnusedFileWarning, match=f"{name} is damaged, or other options made it"):
        return read(pieces, name, **options) is None


NAMES = ("a.npz", "a.pt", "deep/er/a.json")


def test_what_is_written_comes_back(pieces):
    again = Pieces(pieces.folder, json.loads(json.dumps(OPTIONS)))  # as a config.json has them
    found = read(again, "a.npz")
    assert found.keys() == ARRAYS.keys()
    assert all((found[name] == ARRAYS[name]).all() for name in ARRAYS)
    state = read(again, "a.pt")
    assert state.keys() == STATE.keys()
    assert all(state[name].equal(STATE[name]) for name in STATE)
    assert read(again, "deep/er/a.json")["seconds"] == 1.5


@pytest.mark.parametrize("name", ["b.npz", "b.pt", "b.json"])
def test_what_is_missing_is_missing_without_a_word(pieces, name):
    assert read(pieces, name) is None


@pytest.mark.parametrize("name", NAMES)
def test_pieces_of_other_options_are_not_used(pieces, name):
    assert refused(Pieces(pieces.folder, {**OPTIONS, "seed": 1}), name)


@pytest.mark.parametrize("name", NAMES)
def test_a_piece_under_the_name_of_another_is_not_used(pieces, name):
    other = name.replace("a.", "b.")
    (pieces.folder / other).write_bytes((pieces.folder / name).read_bytes())
    assert refused(pieces, other)


def test_arrays_of_another_network_are_not_used(pieces):
    assert refused(pieces, "a.npz", network="two")
    assert refused(pieces, "a.npz", network=None)


def test_pieces_that_do_not_say_what_made_them_are_not_used(pieces):
    np.savez(pieces.folder / "a.npz", **ARRAYS)
    torch.save(STATE, pieces.folder / "a.pt")
    (pieces.folder / "deep/er/a.json").write_text('{"seconds": 1.5}')
    assert all(refused(pieces, name) for name in NAMES)


@pytest.mark.parametrize("how", ["cut", "empty", "flipped"])
@pytest.mark.parametrize("name", NAMES)
def test_damaged_pieces_are_not_used(pieces, name, how):
    path = pieces.folder / name
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 0xFF
    path.write_bytes({"cut": content[: len(content) // 2], "empty": b""}.get(how, content))
    assert refused(pieces, name)


def test_pickles_are_not_read(pieces):
    np.savez(pieces.folder / "a.npz", mean=np.array([{"any": "object"}]))
    torch.save({"state_dict": torch.nn.Linear(1, 1)}, pieces.folder / "a.pt")
    assert refused(pieces, "a.npz")
    assert refused(pieces, "a.pt")


@pytest.mark.parametrize("text", ["[]", "1", "null", "[" * 100_000, "\x00"])
def test_json_of_another_kind_is_not_used(pieces, text):
    (pieces.folder / "deep/er/a.json").write_text(text)
    assert refused(pieces, "deep/er/a.json")


def test_weights_are_found_by_the_option_that_takes_files_of_users(pieces):
    assert read_weights(pieces.folder / "a.pt").keys() == STATE.keys()
