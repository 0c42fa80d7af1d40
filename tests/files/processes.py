"""Processes that write files and can be killed: without torch they start in a tenth of a second."""

import subprocess
import sys
from pathlib import Path

import varigraph

#: As if the package had an empty ``__init__``: what writes files needs nothing else of it.
_WITHOUT_TORCH = """
import sys, time, types
from pathlib import Path
package = types.ModuleType("varigraph")
package.__path__ = [sys.argv[1]]
sys.modules["varigraph"] = package
folder = Path(sys.argv[2])
"""


def started(code, folder):
    """A process that runs the code, in which ``folder`` is known; it has printed its first line."""
    command = [sys.executable, "-c", _WITHOUT_TORCH + code]
    package = str(Path(varigraph.__file__).parent)
    process = subprocess.Popen([*command, package, str(folder)], stdout=subprocess.PIPE, text=True)
    return process, process.stdout.readline().strip()


def killed(process):
    """Ends a process as a power cut would: it has no say in it."""
    process.kill()
    process.wait(timeout=30)
    process.stdout.close()
