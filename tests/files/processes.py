"""Processes that write files and can be killed: without torch they start in a tenth of a second."""

import subprocess
import sys

_START = """
import sys, time
from pathlib import Path
folder = Path(sys.argv[1])
"""


def started(code, folder):
    """A process that runs the code, in which ``folder`` is known; and the first line it printed."""
    command = [sys.executable, "-c", _START + code, str(folder)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    return process, process.stdout.readline().strip()


def killed(process):
    """Ends a process as a power cut would: it has no say in it."""
    process.kill()
    process.wait(timeout=30)
    process.stdout.close()
