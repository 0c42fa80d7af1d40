"""From raw files, wherever they lie, to a graph as torch_geometric reads it."""

from __future__ import annotations

import hashlib
import io
import shutil
import warnings
from contextlib import redirect_stderr
from pathlib import Path

import torch_geometric
from torch_geometric.data import Data

from varigraph.data.cache import cache_folder, draft_folder, publish
from varigraph.data.sources import VARIABLE, Source, raw_folder
from varigraph.errors import DatasetError


def read(source: Source, *, root: str | Path | None = None) -> Data:
    """The data set as torch_geometric has it, processed once and then kept in the cache folder.

    Nothing is written next to the raw files: they may be read-only or shared.

    Args:
        source: the data set.
        root: the folder that holds ``<folder>/raw``; else ``$VARIGRAPH_DATA``, else the cache
            folder, into which a missing data set is downloaded.

    Raises:
        DatasetError: if the files are missing and cannot be downloaded, or cannot be read.
    """
    raw = raw_folder(source, root=root) or _download(source)
    kept = cache_folder() / "processed" / f"{source.folder}-{_fingerprint(source, raw)}"
    if not kept.is_dir():
        _process(source, raw, kept)
    try:
        return _open(source, kept)
    except Exception as error:
        raise DatasetError(
            f"the processed copy of {source.folder} is damaged: {_summary(error)}",
            f"delete {kept}; the next call makes it anew",
        ) from error


def _open(source: Source, folder: Path) -> Data:
    # The readers take no option to be quiet, and their warnings are about their own pickles.
    with warnings.catch_warnings(), redirect_stderr(io.StringIO()):
        warnings.simplefilter("ignore")
        return source.reader(str(folder), source.folder)[0]


def _fingerprint(source: Source, raw: Path) -> str:
    """Differs between two roots, after a change of the files and between versions of the reader."""
    stats = [(raw / name).stat() for name in source.files]
    identity = (
        str(raw.resolve()),
        [(stat.st_size, stat.st_mtime_ns) for stat in stats],
        torch_geometric.__version__,
    )
    return hashlib.sha256(repr(identity).encode()).hexdigest()[:12]


def _process(source: Source, raw: Path, kept: Path) -> None:
    with draft_folder() as draft:
        _mirror(source, raw, draft / "set" / source.folder / "raw")
        try:
            _open(source, draft / "set")
        except Exception as error:
            raise DatasetError(
                f"cannot read {source.folder} from {raw}: {_summary(error)}",
                "replace the files there by intact ones, or remove that folder",
            ) from error
        publish(draft / "set", kept)


def _mirror(source: Source, raw: Path, mirror: Path) -> None:
    mirror.parent.mkdir(parents=True)
    try:
        mirror.symlink_to(raw.resolve(), target_is_directory=True)
    except OSError:  # some file systems, and Windows by default, have no links for users
        mirror.mkdir()
        for name in source.files:
            shutil.copyfile(raw / name, mirror / name)


def _download(source: Source) -> Path:
    with draft_folder() as draft:
        try:
            _open(source, draft)
        except Exception as error:
            raise DatasetError(
                f"{source.folder} is not on this machine and cannot be downloaded: "
                f"{_summary(error)}",
                f"put its raw files into <folder>/{source.folder}/raw and give that folder "
                f"by root=<folder> or ${VARIABLE}",
            ) from None  # whose chain is a hundred lines of other libraries
        raw = cache_folder() / source.folder / "raw"
        publish(draft / source.folder / "raw", raw)
    return raw


def _summary(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"
