import io
import pickle
import shutil
import warnings
from urllib.error import URLError

import numpy as np
import pytest
import torch

from data.tiny_photo import write_photo
from studies.comparison.tiny_computers import write_computers
from varigraph.data import UncheckedDataWarning, data_sets, load, raw_formats
from varigraph.data.data_sets import DATA_SETS, read
from varigraph.errors import DatasetError, FileError

PHOTO = DATA_SETS["photo"]
FILE = next(iter(PHOTO.files))


class Spy:
    """Its pickle creates a folder when it is read with code, by a function that torch lets pass."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return (shutil.copytree, (str(self.path.parent / "root"), str(self.path)))


def tree(folder):
    return {(path, path.lstat().st_mtime_ns) for path in [folder, *folder.rglob("*")]}


@pytest.fixture
def served(monkeypatch):
    """Answers downloads from a folder; the addresses that were asked for."""
    asked = []

    def serve(folder):
        def urlopen(address, timeout):
            asked.append(address)
            return io.BytesIO((folder / address.rpartition("/")[2]).read_bytes())

        monkeypatch.delenv("VARIGRAPH_DATA", raising=False)
        monkeypatch.setattr(data_sets, "urlopen", urlopen)
        return asked

    return serve


def test_nothing_is_written_anywhere(photo, cache):
    before = tree(photo)
    read(PHOTO, root=photo)
    assert tree(photo) == before
    assert not cache.exists()


def test_a_read_only_root_serves(photo):
    folders = [photo, photo / "Photo", photo / "Photo" / "raw"]
    for folder in folders:
        folder.chmod(0o555)
    try:
        assert read(PHOTO, root=photo).num_nodes == 5
    finally:
        for folder in folders:
            folder.chmod(0o755)


def test_two_roots_do_not_mix(photo, tmp_path):
    other = write_photo(tmp_path / "other", first_label=5)
    assert [read(PHOTO, root=root).y[0].item() for root in (photo, other, photo)] == [0, 5, 0]


def test_reading_is_silent(photo, monkeypatch, capfd):
    monkeypatch.delenv("PYTEST_CURRENT_TEST")
    read(PHOTO, root=photo)
    assert capfd.readouterr() == ("", "")


def test_unreadable_files_are_explained(photo):
    folder = photo / "Photo" / "raw"
    (folder / FILE).write_bytes(b"version https://git-lfs.github.com/spec/v1")
    with pytest.raises(DatasetError) as caught:
        read(PHOTO, root=photo)
    assert f"cannot read Photo from {folder}: " in caught.value.problem
    assert FILE in caught.value.problem
    assert "intact" in caught.value.remedy


@pytest.mark.parametrize("part", ["adj_indices", "attr_indices"])
def test_indices_out_of_bounds_are_refused_before_they_are_written_to(photo, part):
    path = photo / "Photo" / "raw" / FILE
    with np.load(path) as stored:
        arrays = dict(stored)
    arrays[part] = arrays[part] + 10**6
    np.savez(path, **arrays)
    with pytest.raises(DatasetError, match="cannot read Photo"):
        read(PHOTO, root=photo)


# Verified


def test_a_missing_set_is_downloaded_once_into_the_cache(photo, tmp_path, cache, served):
    asked = served(photo / "Photo" / "raw")
    empty = tmp_path / "empty"
    empty.mkdir()
    assert read(PHOTO, root=empty).num_nodes == 5
    assert read(PHOTO).num_nodes == 5
    assert asked == [f"{PHOTO.address}/{FILE}"]
    assert [entry.name for entry in cache.iterdir()] == ["Photo"]  # and no draft is left
    assert (cache / "Photo" / "raw" / FILE).is_file()
    assert list(empty.iterdir()) == []


def test_a_download_that_is_something_else_is_not_kept(tmp_path, cache, served):
    served(write_computers(tmp_path / "root") / "Computers" / "raw")
    with pytest.raises(DatasetError) as caught:
        read(DATA_SETS["computers"])
    assert "is not kept" in caught.value.problem
    assert DATA_SETS["computers"].files["amazon_electronics_computers.npz"] in caught.value.problem
    assert "root=" in caught.value.remedy
    assert list(cache.iterdir()) == []


def test_a_failed_download_names_the_ways_to_give_the_files(cache, monkeypatch):
    def fail(address, timeout):
        raise URLError("no network")

    monkeypatch.delenv("VARIGRAPH_DATA", raising=False)
    monkeypatch.setattr(data_sets, "urlopen", fail)
    with pytest.raises(DatasetError) as caught:
        read(PHOTO)
    assert "Photo is not on this machine" in caught.value.problem
    assert "no network" in caught.value.problem
    assert "root=" in caught.value.remedy
    assert "$VARIGRAPH_DATA" in caught.value.remedy
    assert list(cache.iterdir()) == []


def test_a_copy_that_differs_is_refused_with_both_checksums(tmp_path, monkeypatch):
    root = write_computers(tmp_path / "root")
    path = root / "Computers" / "raw" / "amazon_electronics_computers.npz"
    with np.load(path) as stored:
        found = raw_formats.arrays_sha256({name: stored[name] for name in raw_formats.NAMES})
    with pytest.raises(DatasetError) as caught:
        load("computers", root=root)
    expected = DATA_SETS["computers"].files[path.name]
    assert caught.value.problem == (
        f"{path} is not that of Computers: its SHA-256 is {found}, not {expected}"
    )
    assert "VARIGRAPH_UNCHECKED=computers" in caught.value.remedy
    monkeypatch.setenv("VARIGRAPH_UNCHECKED", "photo Computers")
    assert load("computers", root=root).num_nodes == 60


def test_a_set_without_a_checksum_is_read_with_a_word_about_it(photo, monkeypatch):
    monkeypatch.delenv("VARIGRAPH_UNCHECKED")
    with pytest.warns(UncheckedDataWarning, match="Photo.* are not verified") as told:
        load("photo", root=photo)
    assert "VARIGRAPH_UNCHECKED=photo" in str(told[0].message)
    assert told[0].filename == __file__


def test_packing_and_precision_are_not_part_of_the_checksum(photo, tmp_path):
    path = photo / "Photo" / "raw" / FILE
    with np.load(path) as stored:
        arrays = {name: stored[name] for name in raw_formats.NAMES}
    smaller = {
        name: array.astype("i4" if array.dtype.kind == "i" else "f4")
        for name, array in arrays.items()
    }
    assert raw_formats.arrays_sha256(arrays) == raw_formats.arrays_sha256(smaller)
    arrays["labels"][0] += 1
    assert raw_formats.arrays_sha256(arrays) != raw_formats.arrays_sha256(smaller)


# Without running code


@pytest.fixture
def trapped(tmp_path):
    """A CiteSeer whose every pickle would create a folder; the root and that folder."""
    created, folder = tmp_path / "created", tmp_path / "root" / "CiteSeer" / "raw"
    folder.mkdir(parents=True)
    for name in DATA_SETS["citeseer"].files:
        (folder / name).write_bytes(pickle.dumps(Spy(created), protocol=2))
    (folder / "ind.citeseer.test.index").write_text("0\n1\n")
    return tmp_path / "root", created


@pytest.mark.parametrize(("unchecked", "told"), [("", "SHA-256"), ("citeseer", "nothing was run")])
def test_code_in_raw_files_is_not_run(trapped, unchecked, told, monkeypatch):
    monkeypatch.setenv("VARIGRAPH_UNCHECKED", unchecked)
    root, created = trapped
    with pytest.raises(DatasetError) as caught:
        load("citeseer", root=root)
    assert not created.exists()
    assert str(root / "CiteSeer" / "raw" / "ind.citeseer.x") in caught.value.problem
    assert told in caught.value.problem
    pickle.loads((root / "CiteSeer" / "raw" / "ind.citeseer.x").read_bytes())  # the trap does work
    assert created.exists()


@pytest.mark.parametrize("protocol", [0, 2, 4])
def test_only_harmless_things_are_unpickled(tmp_path, protocol):
    created = tmp_path / "created"
    for held in (Spy(created), [{"a": [Spy(created)]}], np.array([Spy(created)], dtype=object)):
        with pytest.raises(FileError, match=r"ind\.x: .* nothing was run"):
            raw_formats.harmless(tmp_path / "ind.x", pickle.dumps(held, protocol=protocol))
    assert not created.exists()


def test_code_in_processed_files_is_not_run(photo, tmp_path, cache):
    created = tmp_path / "created"
    load("photo", root=photo)
    for folder in (photo / "Photo" / "processed", cache / "Photo" / "processed"):
        folder.mkdir(parents=True)
        (folder / "data.pt").touch()
    for path in (*photo.rglob("data.pt"), *cache.rglob("data.pt")):  # what the first call left, too
        torch.save(Spy(created), path)
    assert load("photo", root=photo).num_nodes == 5
    assert not created.exists()


@pytest.mark.real_data
@pytest.mark.parametrize("name", ["citeseer", "pubmed", "computers"])
def test_graphs_are_those_that_torch_geometric_reads(real_data, name):
    from torch_geometric.io import read_npz, read_planetoid_data
    from torch_geometric.utils import to_undirected

    folder = str(real_data / DATA_SETS[name].folder / "raw")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of its old pickles
        theirs = (
            read_npz(f"{folder}/{raw_formats.amazon_file(name)}")
            if name == "computers"
            else read_planetoid_data(folder, name)
        )
    ours = read(DATA_SETS[name], root=real_data)
    assert torch.equal(ours.x, theirs.x)
    assert torch.equal(ours.y, theirs.y)
    both = [to_undirected(graph.edge_index, num_nodes=graph.num_nodes) for graph in (ours, theirs)]
    assert torch.equal(*both)
