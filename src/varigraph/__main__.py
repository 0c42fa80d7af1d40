"""``python -m varigraph`` and the ``varigraph`` command."""

from __future__ import annotations

import sys

_NEEDS = {"typer", "rich", "matplotlib"}


def main() -> None:
    """Run the command line, or say how to install what it needs."""
    try:
        from varigraph.cli import app  # noqa: PLC0415 - what it needs is optional
    except ModuleNotFoundError as error:
        if error.name not in _NEEDS:
            raise
        sys.exit(_fail(f'{error.name} is missing\n  remedy: pip install "varigraph[cli]"'))
    except KeyboardInterrupt:
        sys.exit(130)
    app()


def _fail(message: str) -> int:
    print(f"error: {message}", file=sys.stderr)
    return 2


if __name__ == "__main__":
    main()
