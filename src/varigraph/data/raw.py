"""From raw files, wherever they lie, to a graph: verified, and read without running code."""

from __future__ import annotations

import os
import warnings
from functools import partial
from pathlib import Path
from urllib.request import urlopen

from torch_geometric.data import Data

from varigraph.data.archives import first_line
from varigraph.data.cache import cache_folder, draft_folder, publish
from varigraph.data.sources import VARIABLE, Source, raw_folder
from varigraph.errors import DatasetError, FileError

#: Names of data sets, such as ``photo computers``, whose files are taken as they are.
UNCHECKED = "VARIGRAPH_UNCHECKED"
#: Seconds without an answer after which a download is given up.
PATIENCE = 60
#: Bytes of a download; no file has more than some 32 million.
LARGEST = 1 << 28
BY_HAND = (
    f"put its raw files into <folder>/{{folder}}/raw and give that folder by root=<folder> or "
    f"${VARIABLE}"
)


class UncheckedDataWarning(UserWarning):
    """A data set was read whose SHA-256 is unknown, so that nothing vouches for its files."""


def read(source: Source, *, root: str | Path | None = None) -> Data:
    """The data set as its raw files have it, each of which is compared with its SHA-256.

    Nothing is written next to the raw files: they may be read-only or shared.

    Args:
        source: the data set.
        root: the folder that holds ``<folder>/raw``; else ``$VARIGRAPH_DATA``, else the cache
            folder, into which a missing data set is downloaded.

    Raises:
        DatasetError: if the files are missing and cannot be downloaded, cannot be read, or are not
            those of the data set.

    Warns:
        UncheckedDataWarning: if there is no SHA-256 to compare with; not if
            ``$VARIGRAPH_UNCHECKED`` names the data set.
    """
    raw = raw_folder(source, root=root) or _download(source)
    graph = _graph(source, raw)
    if None in source.files.values() and not _is_trusted(source):
        warnings.warn(
            f"the files of {source.folder} in {raw} are not verified: their SHA-256 is unknown "
            f"here. If you trust them, set {UNCHECKED}={source.folder.lower()}",
            UncheckedDataWarning,
            stacklevel=3,
        )
    return graph


def _graph(source: Source, raw: Path) -> Data:
    try:
        # The old pickles of arrays are full of what numpy warns of by now.
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return source.reader(raw, source.folder, partial(_verify, source, raw))
    except DatasetError:
        raise
    except Exception as error:
        said = error.problem if isinstance(error, FileError) else first_line(error)
        raise DatasetError(
            f"cannot read {source.folder} from {raw}: {said}",
            "replace the files there by intact ones, or remove that folder",
        ) from error


def _verify(source: Source, raw: Path, name: str, found: str) -> None:
    expected = source.files[name]
    if expected not in (None, found) and not _is_trusted(source):
        raise DatasetError(
            f"{raw / name} is not that of {source.folder}: its SHA-256 is {found}, not {expected}",
            "remove that folder to have the data set downloaded anew; if it is meant to differ, "
            f"set {UNCHECKED}={source.folder.lower()}",
        )


def _is_trusted(source: Source) -> bool:
    return source.folder.lower() in os.environ.get(UNCHECKED, "").lower().split()


def _download(source: Source) -> Path:
    with draft_folder() as draft:
        try:
            for name in source.files:
                _fetch(f"{source.address}/{name}", draft / "raw" / name)
        except Exception as error:
            raise DatasetError(
                f"{source.folder} is not on this machine and cannot be downloaded: "
                f"{type(error).__name__}: {first_line(error)}",
                BY_HAND.format(folder=source.folder),
            ) from None  # whose chain is a hundred lines of other libraries
        _check_downloaded(source, draft / "raw")
        raw = cache_folder() / source.folder / "raw"
        publish(draft / "raw", raw)
    return raw


def _fetch(address: str, path: Path) -> None:
    path.parent.mkdir(exist_ok=True)
    with urlopen(address, timeout=PATIENCE) as answer:
        path.write_bytes(answer.read(LARGEST))  # what is cut off does not pass the check


def _check_downloaded(source: Source, raw: Path) -> None:
    try:
        _graph(source, raw)
    except DatasetError as error:
        raise DatasetError(
            f"what was downloaded from {source.address} is not kept: {error.problem}",
            f"try again; if it stays so, {BY_HAND.format(folder=source.folder)}",
        ) from error
