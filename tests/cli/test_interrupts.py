"""Ctrl-C is quiet from the first moment on: exit code 130 and no traceback."""

import signal
import subprocess
import sys
import time

import pytest

import varigraph

#: Shells start background jobs with the signal ignored, and children inherit that.
LISTENING = (
    "import signal; signal.signal(signal.SIGINT, signal.default_int_handler); "
    "print('listening', flush=True); from varigraph.__main__ import main; main()"
)
COMMAND = [sys.executable, "-W", "ignore", "-c", LISTENING]


@pytest.mark.parametrize("seconds", [0.1, 0.4, 0.8, 1.6])
def test_ctrl_c_is_quiet_while_torch_is_imported(seconds, tmp_path):
    with subprocess.Popen(
        [*COMMAND, "run", "cora"], cwd=tmp_path, stdout=-1, stderr=-1, text=True
    ) as process:
        process.stdout.readline()
        time.sleep(seconds)
        process.send_signal(signal.SIGINT)
        out, said = process.communicate(timeout=120)
    assert process.returncode == 130
    assert out == ""
    assert "Traceback" not in said


def test_the_package_comes_without_torch():
    code = "import sys, varigraph; assert 'torch' not in sys.modules; varigraph.predict"
    subprocess.run([sys.executable, "-W", "ignore", "-c", code], check=True, timeout=120)


@pytest.mark.parametrize("name", varigraph.__all__)
def test_public_names_come_when_they_are_asked_for(name):
    assert getattr(varigraph, name).__name__.split(".")[-1] == name
    assert name in dir(varigraph)


def test_other_names_do_not_come():
    with pytest.raises(AttributeError, match="nonsense"):
        varigraph.nonsense  # noqa: B018
