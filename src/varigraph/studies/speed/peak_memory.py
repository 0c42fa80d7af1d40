"""How much memory a piece of work takes at its worst, above what was there before."""

from __future__ import annotations

import sys
from contextlib import suppress
from pathlib import Path

import torch

#: Writing 5 to it makes Linux forget the largest size that a process has had.
FORGET = Path("/proc/self/clear_refs")
STATUS = Path("/proc/self/status")


class PeakMemory:
    """Counts from where it was made.

    On a processor it is the resident size of the whole process, so that it is of use only in a
    process that does nothing else; on a GPU it is what torch has allocated there.

    Args:
        device: to watch.
    """

    def __init__(self, device: torch.device) -> None:
        self._device = device
        if device.type == "cuda":
            torch.cuda.reset_peak_memory_stats(device)
        else:
            with suppress(OSError):  # then it counts from the largest size so far
                FORGET.write_text("5")
        self._start = self._largest()

    def bytes(self) -> int | None:
        """The largest size since then, less that at the start; None where nobody tells it."""
        largest = self._largest()
        return None if largest is None or self._start is None else largest - self._start

    def _largest(self) -> int | None:
        if self._device.type == "cuda":
            return torch.cuda.max_memory_allocated(self._device)
        if sys.platform == "win32":
            return None
        if STATUS.exists():  # what getrusage says is inherited from the process that started this
            return next(
                1024 * int(line.split()[1])
                for line in STATUS.read_text().splitlines()
                if "VmHWM" in line
            )
        import resource  # noqa: PLC0415 - not on Windows

        size = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return size if sys.platform == "darwin" else 1024 * size
