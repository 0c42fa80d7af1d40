import os
import shutil
from pathlib import Path

import pytest
import torch
from torch_geometric.datasets import Amazon

from data.tiny_photo import write_photo
from varigraph.data.raw import read
from varigraph.data.sources import SOURCES
from varigraph.errors import DatasetError

PHOTO = SOURCES["photo"]
FILE = PHOTO.files[0]


def tree(folder):
    return {(path, path.lstat().st_mtime_ns) for path in [folder, *folder.rglob("*")]}


def kept(cache):
    return sorted((cache / "processed").iterdir())


@pytest.fixture
def processed(monkeypatch):
    """How often raw files were processed."""
    calls, process = [], Amazon.process

    def count(dataset):
        calls.append(dataset)
        process(dataset)

    monkeypatch.setattr(Amazon, "process", count)
    return calls


def test_nothing_is_written_into_the_root(photo, cache):
    before = tree(photo)
    read(PHOTO, root=photo)
    assert tree(photo) == before
    assert [entry.name for entry in cache.iterdir()] == ["processed"]  # and no draft is left


def test_a_read_only_root_serves(photo):
    folders = [photo, photo / "Photo", photo / "Photo" / "raw"]
    for folder in folders:
        folder.chmod(0o555)
    try:
        assert read(PHOTO, root=photo).num_nodes == 5
    finally:
        for folder in folders:
            folder.chmod(0o755)


def test_files_are_processed_once(photo, processed):
    first, again = read(PHOTO, root=photo), read(PHOTO, root=photo)
    assert len(processed) == 1
    assert torch.equal(first.edge_index, again.edge_index)


def test_two_roots_do_not_mix(photo, tmp_path, cache):
    other = write_photo(tmp_path / "other", first_label=5)
    assert [read(PHOTO, root=root).y[0].item() for root in (photo, other, photo)] == [0, 5, 0]
    assert len(kept(cache)) == 2


def test_changed_files_are_processed_anew(photo, tmp_path):
    assert read(PHOTO, root=photo).y[0] == 0
    changed = write_photo(tmp_path / "other", first_label=5) / "Photo" / "raw" / FILE
    os.utime(changed, ns=(0, 0))  # also where the clock is too coarse to tell the two apart
    shutil.copy2(changed, photo / "Photo" / "raw" / FILE)
    assert read(PHOTO, root=photo).y[0] == 5


def test_files_are_copied_where_links_cannot_be_made(photo, cache, monkeypatch):
    def refuse(*_, **__):
        raise OSError("no links here")

    monkeypatch.setattr(Path, "symlink_to", refuse)
    assert read(PHOTO, root=photo).num_nodes == 5
    copied = kept(cache)[0] / "Photo" / "raw"
    assert not copied.is_symlink()
    assert [file.name for file in copied.iterdir()] == [FILE]


def test_reading_is_silent(photo, monkeypatch, capfd):
    monkeypatch.delenv("PYTEST_CURRENT_TEST")  # under pytest the reader is quiet by itself
    read(PHOTO, root=photo)
    assert capfd.readouterr() == ("", "")


def test_an_interrupted_call_leaves_nothing_behind(photo, cache, monkeypatch):
    def interrupt(dataset):
        Path(dataset.processed_paths[0]).write_bytes(b"half")
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(Amazon, "process", interrupt)
        with pytest.raises(KeyboardInterrupt):
            read(PHOTO, root=photo)
    assert list(cache.iterdir()) == []
    assert read(PHOTO, root=photo).num_nodes == 5


def test_unreadable_files_are_explained_and_nothing_is_kept(photo, cache):
    raw = photo / "Photo" / "raw"
    (raw / FILE).write_bytes(b"version https://git-lfs.github.com/spec/v1")
    with pytest.raises(DatasetError) as caught:
        read(PHOTO, root=photo)
    assert f"cannot read Photo from {raw}: " in caught.value.problem
    assert "intact" in caught.value.remedy
    assert list(cache.iterdir()) == []


def test_a_damaged_copy_is_named(photo, cache):
    read(PHOTO, root=photo)
    (kept(cache)[0] / "Photo" / "processed" / "data.pt").write_bytes(b"half")
    with pytest.raises(DatasetError) as caught:
        read(PHOTO, root=photo)
    assert "the processed copy of Photo is damaged: " in caught.value.problem
    assert f"delete {kept(cache)[0]}" in caught.value.remedy


def test_a_missing_set_is_downloaded_once_into_the_cache(photo, tmp_path, cache, monkeypatch):
    downloads = []

    def download(dataset):
        downloads.append(dataset)
        shutil.copy(photo / "Photo" / "raw" / FILE, dataset.raw_dir)

    monkeypatch.setattr(Amazon, "download", download)
    empty = tmp_path / "empty"
    empty.mkdir()
    assert read(PHOTO, root=empty).num_nodes == 5
    assert read(PHOTO).num_nodes == 5
    assert len(downloads) == 1
    assert (cache / "Photo" / "raw" / FILE).is_file()
    assert list(empty.iterdir()) == []


def test_a_failed_download_names_the_ways_to_give_the_files(cache, monkeypatch):
    def fail(dataset):
        (Path(dataset.raw_dir) / FILE).write_bytes(b"half")
        raise OSError("no network")

    monkeypatch.delenv("VARIGRAPH_DATA", raising=False)
    monkeypatch.setattr(Amazon, "download", fail)
    with pytest.raises(DatasetError) as caught:
        read(PHOTO)
    assert "Photo is not on this machine" in caught.value.problem
    assert "OSError: no network" in caught.value.problem
    assert "root=" in caught.value.remedy
    assert "$VARIGRAPH_DATA" in caught.value.remedy
    assert list(cache.iterdir()) == []
