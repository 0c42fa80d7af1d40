"""Data sets that are read from disk: where their files lie, downloading and verifying them."""

from __future__ import annotations

import os
import shutil
import tempfile
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from urllib.request import urlopen

from torch_geometric.data import Data

from varigraph.data.opened_files import first_line
from varigraph.data.raw_formats import (
    Verify,
    amazon_file,
    planetoid_files,
    read_amazon,
    read_planetoid,
)
from varigraph.errors import DatasetError, FileError, OptionError
from varigraph.files import locked
from varigraph.options import warn

VARIABLE = "VARIGRAPH_DATA"
#: Names of data sets, such as ``photo computers``, whose files are taken as they are.
UNCHECKED = "VARIGRAPH_UNCHECKED"
PLANETOID = "https://github.com/kimiyoung/planetoid/raw/master/data"
BENCHMARK = "https://github.com/shchur/gnn-benchmark/raw/master/data/npz"
#: Seconds without an answer after which a download is given up.
PATIENCE = 60
#: Bytes of a download; no file has more than some 32 million.
LARGEST = 1 << 28
BY_HAND = (
    f"put its raw files into <folder>/{{folder}}/raw and give that folder by root=<folder> or "
    f"${VARIABLE}"
)
_DRAFT = "draft-"


@dataclass(frozen=True)
class DataSet:
    """A data set in torch_geometric's layout, ``<root>/<folder>/raw/<files>``.

    Args:
        folder: name of its folder.
        address: of the folder from which its files are downloaded.
        files: the raw files, all of them needed, and their SHA-256; None where it is unknown.
        reader: makes a graph of the folder of raw files.
        row_normalised: whether every row of features is scaled to sum 1.
    """

    folder: str
    address: str
    files: Mapping[str, str | None]
    reader: Callable[[Path, str, Verify], Data]
    row_normalised: bool


def _planetoid(folder: str, *sha256: str) -> DataSet:
    known = dict(zip(planetoid_files(folder), sha256, strict=True))
    return DataSet(folder, PLANETOID, known, read_planetoid, row_normalised=True)


def _amazon(folder: str, sha256: str | None) -> DataSet:
    """Of the arrays and not of the file, which is around in more than one packing."""
    return DataSet(
        folder, BENCHMARK, {amazon_file(folder): sha256}, read_amazon, row_normalised=False
    )


DATA_SETS = {
    "citeseer": _planetoid(
        "CiteSeer",
        "d20de19150741e555de0ed037195630fc194114ebc7fd72ced62810148aa22f6",
        "539a8906a2da97628d212f2fdd668c109a8b3f0d36574b59e5d3fd5b5303da21",
        "2ac30345d95c9ec933a817ee0bdd6a5f077f8c184a20e696910192d534414668",
        "8ba87e515d8e3ee3cf52f6d2c5b86aa73f11ecad825a808455209ec26cd54924",
        "55e5bd1ba1e733a04598753ad1a8d57957f4b8f89e74519f41f4f4938767e4ce",
        "f704b2d986dde6c2669934de1f3ae5696a6cf9455c0f6b2646a2d135ea0a1c95",
        "d79a4ef9d3e7169aee8946145f6b7306e35bc79bffad26346cfb94e10e9912a7",
        "2af990671580b6b2df5d158d1038f8292e30c9cd821b5453f399659b25b723d4",
    ),
    "pubmed": _planetoid(
        "PubMed",
        "fbe9cb5c47200d1b7769a26e579be3b7130b556831f9d850e77c4c74f2599b33",
        "4eb5f5d0f30f26497eb0ac6ac9719d09c67e284f1ed0385c93f3ef27a671da3d",
        "508e538e2abdccdd54c4d3e9f49d638b4af7107d85845f66ddea5a5152658b7e",
        "e6c807633307a07ed659249006536a147c7999c797f11a2560752990181b41b3",
        "ee2e0d4819d9fbcc403689c3bf2e49face401b605932f093bc58ab6461130fdd",
        "0c37bbe3b5014ec365e9d393cf4791925e5ed94fb194305d74f064a8d7b50f0e",
        "5b89f0036ca22909471f1e6558eb42fa06e0c730a577bde5b058b40638f81dc9",
        "b101d421688bbaecbd82e8a18f1e282378d6830f3a37666f28ebc47f844341b5",
    ),
    "computers": _amazon(
        "Computers", "a2ba6a26c807ee4698778437309d427ec059324eb1181634eba6a20d1468c9fc"
    ),
    "photo": _amazon("Photo", None),  # no copy has been at hand to take it from
}


def raw_folder(source: DataSet, *, root: str | Path | None = None) -> Path | None:
    """The first folder that holds the raw files, or None where they have to be downloaded.

    Args:
        source: the data set.
        root: where to look; else ``$VARIGRAPH_DATA``. The cache folder comes last in any case.

    Raises:
        DatasetError: if the named root is no folder, or some of the files are missing from it.
    """
    for folder in _roots(source, root):
        raw = folder / source.folder / "raw"
        if raw.is_dir():
            _check_complete(source, raw)
            return raw
    return None


def _roots(source: DataSet, root: str | Path | None) -> Iterator[Path]:
    named = root or os.environ.get(VARIABLE)
    if named:
        folder = Path(named).expanduser().absolute()
        if not os.path.isdir(folder):  # which answers for names that no system can have, too
            raise DatasetError(
                f"{'root=' if root else '$' + VARIABLE + '='}{str(named)!r} is not a folder",
                f"point root= or ${VARIABLE} at the folder that holds {source.folder}/raw",
            )
        yield folder
    yield cache_folder()


def _check_complete(source: DataSet, raw: Path) -> None:
    missing = [name for name in source.files if not (raw / name).is_file()]
    if missing:
        raise DatasetError(
            f"{raw} lacks {', '.join(missing)}",
            "add what is missing, or remove that folder to have the data set downloaded",
        )


class UncheckedDataWarning(UserWarning):
    """A data set was read whose SHA-256 is unknown, so that nothing vouches for its files."""


def read(source: DataSet, *, root: str | Path | None = None) -> Data:
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
        warn(
            f"the files of {source.folder} in {raw} are not verified: their SHA-256 is unknown "
            f"here. If you trust them, set {UNCHECKED}={source.folder.lower()}",
            UncheckedDataWarning,
        )
    return graph


def _graph(source: DataSet, raw: Path) -> Data:
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


def _verify(source: DataSet, raw: Path, name: str, found: str) -> None:
    expected = source.files[name]
    if expected not in (None, found) and not _is_trusted(source):
        raise DatasetError(
            f"{raw / name} is not that of {source.folder}: its SHA-256 is {found}, not {expected}",
            "remove that folder to have the data set downloaded anew; if it is meant to differ, "
            f"set {UNCHECKED}={source.folder.lower()}",
        )


def _is_trusted(source: DataSet) -> bool:
    return source.folder.lower() in os.environ.get(UNCHECKED, "").lower().split()


def _download(source: DataSet) -> Path:
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


def _check_downloaded(source: DataSet, raw: Path) -> None:
    try:
        _graph(source, raw)
    except DatasetError as error:
        raise DatasetError(
            f"what was downloaded from {source.address} is not kept: {error.problem}",
            f"try again; if it stays so, {BY_HAND.format(folder=source.folder)}",
        ) from error


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
