import errno
import os
import random
import secrets
import stat
import time

import pytest

from files.processes import killed, started
from varigraph.errors import FileError
from varigraph.files import check_target, replacing, write_json, write_text
from varigraph.files.whole_file import remove_abandoned_drafts

posix = pytest.mark.skipif(os.name == "nt", reason="permissions and links of POSIX")
DRAFT = ".varigraph-0123456789abcdef.tmp"
WRITING = """
from varigraph.files.whole_file import replacing
with replacing(folder / "other.txt") as stream:
    stream.write(b"half")
    stream.flush()
    print("writing", flush=True)
    time.sleep(600)
"""
#: Writes one letter many times, then another, and so on.
LETTERS = """
from itertools import cycle
from varigraph.files.whole_file import write_text
for letter in cycle("abcdef"):
    write_text(folder / "a.txt", letter * 400_000)
    print(letter, flush=True) if letter == "a" else None
"""
#: Writes the same file again and again, as others do at the same time.
TOGETHER = """
from varigraph.files.whole_file import write_text
print("ready", flush=True)
for number in range(150):
    write_text(folder / "a.txt", str(number % 10) * 20_000)
"""


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def mode(path):
    return stat.S_IMODE(path.stat().st_mode)


@pytest.mark.parametrize("reason", [KeyboardInterrupt, ValueError, SystemExit])
def test_a_broken_off_write_leaves_the_old_file_and_nothing_else(tmp_path, reason):
    def break_off():
        with replacing(tmp_path / "a.txt") as stream:
            stream.write(b"half")
            raise reason

    write_text(tmp_path / "a.txt", "old")
    with pytest.raises(reason):
        break_off()
    assert (tmp_path / "a.txt").read_text() == "old"
    assert names(tmp_path) == ["a.txt"]


def test_numbers_that_json_lacks_are_not_written(tmp_path):
    with pytest.raises(ValueError, match="JSON"):
        write_json(tmp_path / "a.json", float("nan"))
    assert names(tmp_path) == []


@posix
@pytest.mark.parametrize("kept", [0o600, 0o640, 0o400, 0o666])
def test_an_earlier_file_hands_on_its_permissions(tmp_path, kept):
    path = tmp_path / "a.txt"
    path.touch()
    path.chmod(kept)
    write_text(path, "new")
    assert mode(path) == kept
    assert path.read_text() == "new"


@posix
def test_a_private_file_is_private_while_it_is_written(tmp_path):
    (tmp_path / "a.txt").touch(mode=0o600)
    with replacing(tmp_path / "a.txt"):
        (draft,) = (path for path in tmp_path.iterdir() if path.name != "a.txt")
        assert mode(draft) == 0o600


@posix
@pytest.mark.parametrize(("mask", "expected"), [(0o022, 0o644), (0o077, 0o600), (0o002, 0o664)])
def test_a_new_file_has_the_permissions_of_the_umask(tmp_path, mask, expected):
    before = os.umask(mask)
    try:
        write_text(tmp_path / "a.txt", "new")
    finally:
        os.umask(before)
    assert mode(tmp_path / "a.txt") == expected


@posix
def test_a_link_in_the_place_of_the_file_is_replaced_and_not_followed(tmp_path):
    (tmp_path / "victim").write_text("precious")
    (tmp_path / "a.txt").symlink_to(tmp_path / "victim")
    (tmp_path / "b.txt").symlink_to(tmp_path / "nowhere")
    for name in ("a.txt", "b.txt"):
        write_text(tmp_path / name, "new")
        assert not (tmp_path / name).is_symlink()
    assert (tmp_path / "victim").read_text() == "precious"
    assert not (tmp_path / "nowhere").exists()


@posix
def test_a_link_planted_where_earlier_versions_wrote_is_left_alone(tmp_path):
    (tmp_path / "victim").write_text("precious")
    (tmp_path / f".a.txt.{os.getpid()}.tmp").symlink_to(tmp_path / "victim")
    write_text(tmp_path / "a.txt", "new")
    assert (tmp_path / "victim").read_text() == "precious"


@posix
def test_a_link_with_the_name_of_the_draft_is_refused(tmp_path, monkeypatch):
    (tmp_path / "victim").write_text("precious")
    (tmp_path / DRAFT).symlink_to(tmp_path / "victim")
    monkeypatch.setattr(secrets, "token_hex", lambda size: "0123456789abcdef")
    with pytest.raises(FileError, match="File exists"):
        write_text(tmp_path / "a.txt", "new")
    assert (tmp_path / "victim").read_text() == "precious"
    assert (tmp_path / DRAFT).is_symlink()  # it is no draft of ours


def test_content_reaches_the_disk_before_its_name_and_the_name_before_the_end(
    tmp_path, monkeypatch
):
    done = []
    sync, rename = os.fsync, os.replace

    def synced(handle):
        done.append("folder" if stat.S_ISDIR(os.fstat(handle).st_mode) else "file")
        sync(handle)

    def renamed(*ends):
        done.append("rename")
        rename(*ends)

    monkeypatch.setattr(os, "fsync", synced)
    monkeypatch.setattr(os, "replace", renamed)
    write_text(tmp_path / "a.txt", "new")
    assert done == (["file", "rename"] if os.name == "nt" else ["file", "rename", "folder"])


@pytest.mark.parametrize(
    ("number", "remedy"),
    [
        (errno.ENOSPC, "make room"),
        (errno.EROFS, "a disk that can be written"),
        (errno.EACCES, "in which you may write"),
        (errno.EIO, "choose another file"),
    ],
)
def test_what_the_system_refuses_is_explained(tmp_path, monkeypatch, number, remedy):
    def refuse(*arguments, **options):
        raise OSError(number, os.strerror(number))

    write_text(tmp_path / "a.txt", "old")
    for name in ("open", "fsync", "replace"):
        with monkeypatch.context() as patch:
            patch.setattr(os, name, refuse)
            with pytest.raises(FileError) as caught:
                write_text(tmp_path / "a.txt", "new")
        assert f"{tmp_path / 'a.txt'}: cannot be written: {os.strerror(number)}" in str(
            caught.value
        )
        assert remedy in caught.value.remedy
        assert names(tmp_path) == ["a.txt"]
    assert (tmp_path / "a.txt").read_text() == "old"


def test_a_disk_without_room_is_explained(tmp_path, small_disk):
    write_text(tmp_path / "a.txt", "old")
    with small_disk(), pytest.raises(FileError, match=r"File too large[\s\S]*make room"):
        write_text(tmp_path / "a.txt", "new" * 100_000)
    assert (tmp_path / "a.txt").read_text() == "old"
    assert names(tmp_path) == ["a.txt"]


def test_a_missing_folder_is_named(tmp_path):
    with pytest.raises(FileError, match=r"there is no folder .*none\n  remedy: mkdir -p"):
        write_text(tmp_path / "none" / "a.txt", "new")


def test_names_that_are_too_long_are_explained(tmp_path):
    with pytest.raises(FileError, match="shorter name"):
        write_text(tmp_path / ("a" * 300), "new")


@pytest.mark.parametrize("kind", ["folder", "pipe", "link to a pipe"])
def test_what_is_no_file_is_not_replaced(tmp_path, kind):
    path = tmp_path / "a.txt"
    if kind == "folder":
        path.mkdir()
    else:
        os.mkfifo(tmp_path / "pipe")
        path.symlink_to("pipe") if kind != "pipe" else (tmp_path / "pipe").rename(path)
    before = path.lstat().st_mode
    for refuse in (check_target, lambda path: write_text(path, "new")):
        with pytest.raises(FileError, match="not a file"):
            refuse(path)
    assert path.lstat().st_mode == before


def test_what_stands_in_the_way_is_found_before_the_work(tmp_path, monkeypatch):
    check_target(tmp_path / "a.txt")
    assert names(tmp_path) == []
    for name, why in (("none/a.txt", "there is no folder"), ("a" * 300, "shorter name")):
        with pytest.raises(FileError, match=why):
            check_target(tmp_path / name)
    monkeypatch.setattr(os, "access", lambda path, kind: False)  # root may write everywhere
    with pytest.raises(FileError, match="Permission denied"):
        check_target(tmp_path / "a.txt")


def test_drafts_of_dead_processes_are_removed_by_the_next_write(tmp_path):
    (tmp_path / DRAFT).write_text("half")
    others = (".varigraph-notes.tmp", ".a.txt.123.tmp", "varigraph-0123456789abcdef.tmp")
    for name in others:
        (tmp_path / name).write_text("somebody's")
    write_text(tmp_path / "a.txt", "new")
    assert names(tmp_path) == sorted(["a.txt", *others])


@posix
def test_drafts_of_living_processes_are_left_alone(tmp_path):
    process, _ = started(WRITING, tmp_path)
    try:
        write_text(tmp_path / "a.txt", "new")
        remove_abandoned_drafts(tmp_path)
        assert len(names(tmp_path)) == 2
    finally:
        killed(process)
    remove_abandoned_drafts(tmp_path)
    assert names(tmp_path) == ["a.txt"]


@posix
def test_a_draft_taken_for_abandoned_before_it_was_locked_is_begun_again(tmp_path, monkeypatch):
    tokens = iter(["0123456789abcdef", "f" * 16])
    opened = os.open

    def hurried(path, *arguments, **options):
        handle = opened(path, *arguments, **options)
        if str(path).endswith(DRAFT):
            os.unlink(path)  # by a process that found it without a lock
        return handle

    monkeypatch.setattr(secrets, "token_hex", lambda size: next(tokens))
    monkeypatch.setattr(os, "open", hurried)
    write_text(tmp_path / "a.txt", "new")
    assert (tmp_path / "a.txt").read_text() == "new"


@posix
def test_processes_that_write_the_same_file_do_not_disturb_each_other(tmp_path):
    writing = [started(TOGETHER, tmp_path)[0] for _ in range(3)]
    for process in writing:
        assert process.wait(timeout=60) == 0
        process.stdout.close()
    assert (tmp_path / "a.txt").read_text() == "9" * 20_000
    assert names(tmp_path) == ["a.txt"]


@posix
def test_killed_at_any_moment_there_is_a_whole_file(tmp_path):
    draw, left = random.Random(0), 0
    for _ in range(25):
        process, first = started(LETTERS, tmp_path)
        assert first == "a"
        time.sleep(draw.uniform(0, 0.03))
        killed(process)
        text = (tmp_path / "a.txt").read_text()
        assert text == text[0] * 400_000
        left += len(names(tmp_path)) > 1
        assert len(names(tmp_path)) <= 2  # the draft of an earlier kill was removed
    assert left > 0  # about half of the kills fall into a write
    write_text(tmp_path / "a.txt", "done")
    assert names(tmp_path) == ["a.txt"]
