import numpy as np
import pytest
import torch

from varigraph.errors import FileError, OptionError
from varigraph.files.whole_file import UnusedFileWarning
from varigraph.links.crossfit import FoldFiles, Judgement

SETTINGS = {"method": "seal", "seed": 3}
FOLD = Judgement(
    torch.tensor([0.25, 1 / 3]).double(), torch.tensor([0.1]).double(), calibration="isotonic"
)


def same(one, two):
    return (
        torch.equal(one.links, two.links)
        and torch.equal(one.others, two.others)
        and one.calibration == two.calibration
    )


def test_what_is_written_is_read_back_to_the_last_digit(tmp_path):
    FoldFiles(tmp_path, SETTINGS).write(1, FOLD)
    files = FoldFiles(str(tmp_path), SETTINGS)
    assert same(files.read(1), FOLD)
    assert files.read(0) is None


def test_files_are_plain_arrays_with_the_settings_that_made_them(tmp_path):
    FoldFiles(tmp_path, SETTINGS).write(0, FOLD)
    assert [path.name for path in tmp_path.iterdir()] == ["fold-1.npz"]
    with np.load(tmp_path / "fold-1.npz", allow_pickle=False) as stored:
        assert str(stored["settings"]) == '{"method": "seal", "seed": 3}'


@pytest.mark.parametrize(
    ("other", "said"),
    [
        ({"method": "seal", "seed": 4}, "seed 3, not 4"),
        ({"method": "hadamard", "seed": 3}, "method seal, not hadamard"),
        ({"method": "seal"}, "seed 3, not None"),
        ({**SETTINGS, "folds": 5}, "folds None, not 5"),
    ],
)
def test_folds_made_with_other_settings_are_refused(tmp_path, other, said):
    FoldFiles(tmp_path, SETTINGS).write(2, FOLD)
    with pytest.raises(OptionError) as caught:
        FoldFiles(tmp_path, other)
    assert said in caught.value.problem
    assert "fold-3.npz" in caught.value.problem
    assert "another folder" in caught.value.remedy


@pytest.mark.parametrize("keep", [0, 10, 300, -1])
def test_a_damaged_file_counts_as_missing(tmp_path, keep):
    files = FoldFiles(tmp_path, SETTINGS)
    files.write(0, FOLD)
    path = tmp_path / "fold-1.npz"
    path.write_bytes(path.read_bytes()[:keep])
    with pytest.warns(UnusedFileWarning):
        assert FoldFiles(tmp_path, SETTINGS).read(0) is None
    files.write(0, FOLD)
    assert same(files.read(0), FOLD)


def test_a_fold_under_the_number_of_another_one_counts_as_missing(tmp_path):
    files = FoldFiles(tmp_path, SETTINGS)
    files.write(0, FOLD)
    (tmp_path / "fold-2.npz").write_bytes((tmp_path / "fold-1.npz").read_bytes())
    with pytest.warns(UnusedFileWarning, match="fold-2"):
        assert FoldFiles(tmp_path, SETTINGS).read(1) is None


@pytest.mark.parametrize("spoilt", [{"number": np.zeros(2)}, {"settings": np.array("[1]")}, {}])
def test_a_fold_that_does_not_say_what_made_it_counts_as_missing(tmp_path, spoilt):
    FoldFiles(tmp_path, SETTINGS).write(0, FOLD)
    with np.load(tmp_path / "fold-1.npz") as stored:
        arrays = {name: stored[name] for name in stored.files if name != "number"}
    np.savez(tmp_path / "fold-1.npz", **{**arrays, **spoilt})
    with pytest.warns(UnusedFileWarning):
        assert FoldFiles(tmp_path, SETTINGS).read(0) is None


def test_a_crash_while_writing_leaves_what_was_there(tmp_path, monkeypatch):
    files = FoldFiles(tmp_path, SETTINGS)
    files.write(0, FOLD)

    def crash(stream, **arrays):
        stream.write(b"half of")
        raise KeyboardInterrupt

    monkeypatch.setattr(np, "savez", crash)
    with pytest.raises(KeyboardInterrupt):
        files.write(0, Judgement(FOLD.others, FOLD.links, "scaled"))
    assert same(files.read(0), FOLD)
    assert [path.name for path in tmp_path.iterdir()] == ["fold-1.npz"]


def test_a_disk_that_is_full_is_explained(tmp_path, full_disk):
    files = FoldFiles(tmp_path, SETTINGS)
    with full_disk(), pytest.raises(FileError, match="No space left"):
        files.write(0, FOLD)
    assert list(tmp_path.iterdir()) == []
