import os
import re
import threading
import time
from itertools import pairwise

import pytest

from files.processes import killed, started
from varigraph.errors import OptionError
from varigraph.files import locked
from varigraph.files.locks import LOCK

HOLDING = """
from varigraph.files.locks import locked
with locked(folder):
    print("holding", flush=True)
    time.sleep(600)
"""
#: Notes down when it had the lock, for as long as it is refused.
TAKING_TURNS = """
from varigraph.errors import OptionError
from varigraph.files.locks import locked
print("ready", flush=True)
turns = 0
while turns < 40:
    try:
        with locked(folder / "run"):
            begun = time.monotonic_ns()
            time.sleep(0.001)
            with (folder / "turns").open("a") as log:
                log.write(f"{begun} {time.monotonic_ns()}\\n")
            turns += 1
    except OptionError:
        pass
    time.sleep(0.0005)
"""


def refusal(folder):
    with pytest.raises(OptionError) as caught, locked(folder):
        pass
    return caught.value


def test_a_second_process_is_refused_at_once_and_told_by_whom(tmp_path):
    process, _ = started(HOLDING, tmp_path)
    try:
        begun = time.monotonic()
        error = refusal(tmp_path)
        assert time.monotonic() - begun < 1
        assert error.problem == f"{tmp_path} is in use by process {process.pid}"
        assert "another folder" in error.remedy
    finally:
        killed(process)


def test_the_lock_ends_with_a_killed_process(tmp_path):
    process, _ = started(HOLDING, tmp_path)
    killed(process)
    assert (tmp_path / LOCK).exists()  # it had no time to remove it
    with locked(tmp_path):
        assert (tmp_path / LOCK).read_text() == str(os.getpid())
    assert list(tmp_path.iterdir()) == []


def test_a_process_may_lock_what_it_has_locked_and_another_thread_may_not(tmp_path):
    refused = []
    with locked(tmp_path), locked(tmp_path / "." / ""):
        thread = threading.Thread(target=lambda: refused.append(refusal(tmp_path)))
        thread.start()
        thread.join()
        assert refused[0].problem.endswith(f"process {os.getpid()}")
    with locked(tmp_path):
        pass


def test_a_folder_that_was_made_for_nothing_is_removed(tmp_path):
    with locked(tmp_path / "new" / "run"):
        pass
    assert not (tmp_path / "new" / "run").exists()
    with locked(tmp_path / "new" / "run"):
        (tmp_path / "new" / "run" / "result").touch()
    assert [path.name for path in (tmp_path / "new" / "run").iterdir()] == ["result"]


def test_an_empty_folder_that_was_there_stays(tmp_path):
    with locked(tmp_path):
        pass
    assert tmp_path.is_dir()


def test_the_lock_is_let_go_after_a_failure(tmp_path):
    def fail():
        with locked(tmp_path):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fail()
    with locked(tmp_path):
        pass


@pytest.mark.parametrize("how", ["symlink_to", "hardlink_to"])
def test_a_link_planted_as_the_lock_is_refused(tmp_path, how):
    (tmp_path / "victim").write_text("precious")
    getattr(tmp_path / LOCK, how)(tmp_path / "victim")
    assert "cannot be used" in refusal(tmp_path).problem
    assert (tmp_path / "victim").read_text() == "precious"


def test_a_pipe_planted_as_the_lock_is_refused(tmp_path):
    os.mkfifo(tmp_path / LOCK)
    assert "no file of ours" in refusal(tmp_path).problem


def test_what_stands_in_a_lock_is_not_repeated_unless_it_is_a_number(tmp_path):
    with locked(tmp_path):
        (tmp_path / LOCK).write_text("\x1b[2J")
        refused = []
        thread = threading.Thread(target=lambda: refused.append(refusal(tmp_path)))
        thread.start()
        thread.join()
    assert refused[0].problem == f"{tmp_path} is in use by a process"


def test_a_file_in_the_way_is_explained(tmp_path):
    (tmp_path / "taken").touch()
    assert re.search("cannot be used: .*exists", refusal(tmp_path / "taken").problem)


def test_two_processes_are_never_inside_at_the_same_time(tmp_path):
    racing = [started(TAKING_TURNS, tmp_path)[0] for _ in range(2)]
    for process in racing:
        assert process.wait(timeout=60) == 0
        process.stdout.close()
    turns = [
        tuple(map(int, line.split())) for line in (tmp_path / "turns").read_text().splitlines()
    ]
    assert len(turns) == 80
    turns.sort()
    assert all(one[1] <= two[0] for one, two in pairwise(turns))
