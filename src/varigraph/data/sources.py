"""The data sets that are read from disk: which class reads them, which files they consist of."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch_geometric.datasets import Amazon, Planetoid

from varigraph.data.cache import cache_folder
from varigraph.errors import DatasetError

VARIABLE = "VARIGRAPH_DATA"


@dataclass(frozen=True)
class Source:
    """A data set in torch_geometric's layout, ``<root>/<folder>/raw/<files>``.

    Args:
        folder: name of its folder, which is also its name for torch_geometric.
        reader: the torch_geometric class that reads it.
        files: the raw files, all of them needed.
        row_normalised: whether every row of features is scaled to sum 1.
    """

    folder: str
    reader: Any
    files: tuple[str, ...]
    row_normalised: bool


def _planetoid(folder: str) -> Source:
    parts = ("x", "tx", "allx", "y", "ty", "ally", "graph", "test.index")
    files = tuple(f"ind.{folder.lower()}.{part}" for part in parts)
    return Source(folder, Planetoid, files, row_normalised=True)


def _amazon(folder: str) -> Source:
    files = (f"amazon_electronics_{folder.lower()}.npz",)
    return Source(folder, Amazon, files, row_normalised=False)


SOURCES = {
    "citeseer": _planetoid("CiteSeer"),
    "pubmed": _planetoid("PubMed"),
    "computers": _amazon("Computers"),
    "photo": _amazon("Photo"),
}


def raw_folder(source: Source, *, root: str | Path | None = None) -> Path | None:
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


def _roots(source: Source, root: str | Path | None) -> Iterator[Path]:
    named = root or os.environ.get(VARIABLE)
    if named:
        folder = Path(named).expanduser().absolute()
        if not folder.is_dir():
            raise DatasetError(
                f"{'root=' if root else '$' + VARIABLE + '='}{str(named)!r} is not a folder",
                f"point root= or ${VARIABLE} at the folder that holds {source.folder}/raw",
            )
        yield folder
    yield cache_folder()


def _check_complete(source: Source, raw: Path) -> None:
    missing = [name for name in source.files if not (raw / name).is_file()]
    if missing:
        raise DatasetError(
            f"{raw} lacks {', '.join(missing)}",
            "add what is missing, or remove that folder to have the data set downloaded",
        )
