"""What ``torch.save`` wrote, read without running any code that stands in it."""

from __future__ import annotations

import pickle
import re
import warnings
import zipfile
from pathlib import Path
from typing import Any

import torch
from torch_geometric.data.data import DataEdgeAttr, DataTensorAttr
from torch_geometric.data.storage import BaseStorage, EdgeStorage, GlobalStorage, NodeStorage

from varigraph.errors import FileError

#: What a saved ``Data`` consists of, besides the classes that torch_geometric itself names as safe.
#: Their constructors keep what they are given, and do nothing else.
PARTS_OF_DATA = (
    *(DataEdgeAttr, DataTensorAttr),
    *(BaseStorage, EdgeStorage, GlobalStorage, NodeStorage),
)


def read_pickle(path: Path, *, remedy: str) -> Any:
    """Tensors, numbers, texts, lists, dicts and graphs; anything else is refused unread.

    Args:
        path: the file.
        remedy: how to save what belongs there.

    Raises:
        FileError: if it is damaged, or holds what only code could bring back.
    """
    if not path.is_file():
        raise FileError(path, "there is no such file", "correct the path")
    _check_whole(path)
    try:
        with (
            warnings.catch_warnings(),
            torch.serialization.safe_globals(list(PARTS_OF_DATA)),
        ):
            warnings.simplefilter("ignore")  # torch's advice on formats; ours comes as an error
            return torch.load(path, map_location="cpu", weights_only=True)
    except pickle.UnpicklingError as error:
        raise FileError(path, _refusal(str(error)), remedy) from error
    except Exception as error:  # damaged bytes fail in any way that they happen to suggest
        raise FileError(path, f"cannot be read: {_first_line(error)}", remedy) from error


def _check_whole(path: Path) -> None:
    """Checksums of the archive, which torch itself does not look at."""
    try:
        damaged = None
        if zipfile.is_zipfile(path):
            with zipfile.ZipFile(path) as archive:
                damaged = archive.testzip()
    except (OSError, zipfile.BadZipFile) as error:
        raise FileError(path, f"cannot be read: {_first_line(error)}", "fetch it again") from error
    if damaged is not None:
        raise FileError(path, f"is damaged: wrong checksum of {damaged}", "fetch it again")


def _refusal(said: str) -> str:
    culprit = re.search(r"GLOBAL (\S+)", said)
    if culprit is None:
        return "is not what torch.save writes, or is damaged"
    return f"holds {culprit[1]}, and bringing that back could run code; nothing was run"


def _first_line(error: Exception) -> str:
    return f"{type(error).__name__}: {str(error).strip().splitlines()[0] if str(error) else ''}"
