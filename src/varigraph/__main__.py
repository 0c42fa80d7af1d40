"""``python -m varigraph`` and the ``varigraph`` command."""

from __future__ import annotations

import io
import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager

#: As in cli/mistakes.py, which is not there yet when they are needed.
_MISTAKE, _INTERRUPTED = 2, 130
_NEEDS = {"typer", "rich", "matplotlib"}


def main() -> None:
    """Run the command line, or say how to install what it needs."""
    try:
        with _leaving_at_once():
            from varigraph.cli import app  # noqa: PLC0415 - what it needs is optional
    except ModuleNotFoundError as error:
        if error.name not in _NEEDS:
            raise
        sys.exit(_fail(f'{error.name} is missing\n  remedy: pip install "varigraph[cli]"'))
    spell_out()
    try:
        app()
    except KeyboardInterrupt:
        sys.exit(_INTERRUPTED)
    finally:
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # nothing is left to stop


@contextmanager
def _leaving_at_once() -> Iterator[None]:
    """Within it, Ctrl-C ends the process: what is half imported may swallow an exception."""
    before = signal.getsignal(signal.SIGINT)
    if before is not signal.default_int_handler:  # somebody ignores it, or runs us in a test
        yield
        return
    signal.signal(signal.SIGINT, lambda *_: os._exit(_INTERRUPTED))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def spell_out() -> None:
    """Let standard output spell the signs that it lacks, rather than fail after all the work."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")


def _fail(message: str) -> int:
    print(f"error: {message}", file=sys.stderr)
    return _MISTAKE


if __name__ == "__main__":
    main()
