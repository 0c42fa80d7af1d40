"""Ctrl-C while something is imported: the process ends at once."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager

#: The exit code after Ctrl-C.
INTERRUPTED = 130


@contextmanager
def leaving_at_once() -> Iterator[None]:
    """Within it, Ctrl-C ends the process: what is half imported may swallow an exception."""
    before = signal.getsignal(signal.SIGINT)
    if before is not signal.default_int_handler:  # somebody ignores it, or runs us in a test
        yield
        return
    signal.signal(signal.SIGINT, lambda *_: os._exit(INTERRUPTED))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
