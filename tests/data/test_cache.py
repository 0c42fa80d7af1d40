import errno
import os
from pathlib import Path

import pytest

from varigraph.data.data_sets import cache_folder, draft_folder, publish
from varigraph.errors import DatasetError


def test_the_folder_follows_the_environment(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert cache_folder() == tmp_path / "varigraph"


@pytest.mark.parametrize("value", [None, ""])
def test_without_a_setting_it_lies_in_the_home_folder(monkeypatch, tmp_path, value):
    monkeypatch.setattr(Path, "home", lambda: tmp_path)
    if value is None:
        monkeypatch.delenv("XDG_CACHE_HOME")
    else:
        monkeypatch.setenv("XDG_CACHE_HOME", value)
    assert cache_folder() == tmp_path / ".cache" / "varigraph"


def test_a_draft_is_gone_afterwards_even_after_a_failure(cache):
    def fail():
        with draft_folder() as draft:
            (draft / "half").touch()
            raise RuntimeError("half way")

    with pytest.raises(RuntimeError, match="half way"):
        fail()
    assert list(cache.iterdir()) == []


def test_what_is_published_stays(cache):
    with draft_folder() as draft:
        (draft / "set").mkdir()
        (draft / "set" / "file").write_text("done")
        publish(draft / "set", cache / "deep" / "final")
    assert (cache / "deep" / "final" / "file").read_text() == "done"
    assert [entry.name for entry in cache.iterdir()] == ["deep"]


def test_the_first_to_publish_wins(cache):
    for text in ("first", "second"):
        with draft_folder() as draft:
            (draft / "set").mkdir()
            (draft / "set" / "file").write_text(text)
            publish(draft / "set", cache / "final")
    assert (cache / "final" / "file").read_text() == "first"


def test_publishing_nothing_is_an_error(cache):
    with draft_folder() as draft, pytest.raises(DatasetError, match="No such file"):
        publish(draft / "set", cache / "final")


def test_a_cache_that_cannot_be_written_is_explained(cache):
    cache.parent.mkdir()
    cache.write_text("a file where the folder should be")
    with pytest.raises(DatasetError) as caught, draft_folder():
        pass
    assert f"cannot write to the cache folder {cache}" in caught.value.problem
    assert "XDG_CACHE_HOME" in caught.value.remedy


def test_what_a_killed_process_left_is_removed_and_what_is_in_use_is_not(cache):
    (cache / "draft-dead" / "set").mkdir(parents=True)
    (cache / "draft-dead" / "set" / "half").write_text("half")
    with draft_folder() as first, draft_folder() as second:
        assert {path.name for path in cache.iterdir()} == {first.name, second.name}
    assert list(cache.iterdir()) == []


def test_a_full_disk_is_explained(cache, monkeypatch):
    def full(self, *place):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(Path, "replace", full)
    with draft_folder() as draft, pytest.raises(DatasetError, match=r"No space left[\s\S]*room"):
        publish(draft, cache / "final")
