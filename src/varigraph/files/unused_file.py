"""A word about finished work that is there and cannot be trusted."""

from __future__ import annotations

import warnings
from pathlib import Path


class UnusedFileWarning(UserWarning):
    """A file is damaged, or something else made it than what asks for it: it is not used."""


def say_unused(path: Path) -> None:
    """Warn about a file that is not used; nothing where there is none.

    Args:
        path: the file.
    """
    if path.exists():
        warnings.warn(
            f"{path} is damaged, or other options made it: it is not used",
            UnusedFileWarning,
            stacklevel=2,
        )
