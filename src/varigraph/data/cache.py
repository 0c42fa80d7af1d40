"""The user's cache folder, where finished work is put in one step or not at all."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from varigraph.errors import DatasetError


def cache_folder() -> Path:
    """``$XDG_CACHE_HOME/varigraph``, else ``~/.cache/varigraph``; it need not exist."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache").absolute() / "varigraph"


@contextmanager
def draft_folder() -> Iterator[Path]:
    """A folder inside the cache that is gone afterwards; :func:`publish` what is worth keeping.

    Raises:
        DatasetError: if the cache folder cannot be written.
    """
    cache = cache_folder()
    try:
        cache.mkdir(parents=True, exist_ok=True)
        draft = tempfile.TemporaryDirectory(prefix="draft-", dir=cache)
    except OSError as error:
        raise DatasetError(
            f"cannot write to the cache folder {cache}: {error}",
            "set XDG_CACHE_HOME to a folder that can be written",
        ) from error
    with draft as folder:
        yield Path(folder)


def publish(draft: Path, final: Path) -> None:
    """Renames a finished folder to its final place, where the next call finds it complete."""
    final.parent.mkdir(parents=True, exist_ok=True)
    try:
        draft.replace(final)
    except OSError:
        # Another process may have published the same work first; its copy is as good as ours.
        if not final.is_dir():
            raise
