"""The user's cache folder, where finished work is put in one step or not at all."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from varigraph.errors import DatasetError, OptionError
from varigraph.files import locked

_DRAFT = "draft-"


def cache_folder() -> Path:
    """``$XDG_CACHE_HOME/varigraph``, else ``~/.cache/varigraph``; it need not exist."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache").absolute() / "varigraph"


@contextmanager
def draft_folder() -> Iterator[Path]:
    """A folder inside the cache that is gone afterwards; :func:`publish` what is worth keeping.

    What a killed process left of its own is removed.

    Raises:
        DatasetError: if the cache folder cannot be written.
    """
    cache = cache_folder()
    try:
        cache.mkdir(parents=True, exist_ok=True)
        _remove_abandoned_drafts(cache)
        draft = tempfile.TemporaryDirectory(prefix=_DRAFT, dir=cache, ignore_cleanup_errors=True)
    except OSError as error:
        raise _unwritable(cache, error) from error
    with draft as folder, locked(Path(folder)):
        yield Path(folder)


def publish(draft: Path, final: Path) -> None:
    """Renames a finished folder to its final place, where the next call finds it complete.

    Raises:
        DatasetError: if the final place cannot be written.
    """
    try:
        final.parent.mkdir(parents=True, exist_ok=True)
        draft.replace(final)
    except OSError as error:
        # Another process may have published the same work first; its copy is as good as ours.
        if not final.is_dir():
            raise _unwritable(final, error) from error


def _remove_abandoned_drafts(cache: Path) -> None:
    for draft in cache.glob(f"{_DRAFT}*"):
        with suppress(OptionError), locked(draft, again=False):  # those of the living are in use
            shutil.rmtree(draft, ignore_errors=True)


def _unwritable(place: Path, error: OSError) -> DatasetError:
    return DatasetError(
        f"cannot write to the cache folder {place}: {error.strerror or error}",
        "make room, or set XDG_CACHE_HOME to a folder that can be written",
    )
