"""``python -m varigraph`` and the ``varigraph`` command."""

from __future__ import annotations

import io
import signal
import sys

from varigraph.interrupts import INTERRUPTED, leaving_at_once

#: As in cli/mistakes.py, which is not there yet when it is needed.
_MISTAKE = 2
_NEEDS = {"typer", "rich"}


def main() -> None:
    """Run the command line, or say how to install what it needs."""
    try:
        with leaving_at_once():
            from varigraph.cli import app  # noqa: PLC0415 - what it needs is optional
    except ModuleNotFoundError as error:
        if error.name not in _NEEDS:
            raise
        sys.exit(_fail(f'{error.name} is missing\n  remedy: pip install "varigraph[cli]"'))
    spell_out()
    try:
        app()
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)
    finally:
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # nothing is left to stop


def spell_out() -> None:
    """Let standard output spell the signs that it lacks, rather than fail after all the work."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")


def _fail(message: str) -> int:
    print(f"error: {message}", file=sys.stderr)
    return _MISTAKE


if __name__ == "__main__":
    main()
