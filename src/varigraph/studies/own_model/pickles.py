"""What ``torch.save`` wrote, read without running any code that stands in it."""

from __future__ import annotations

import io
import pickle
import re
import warnings
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch_geometric.data.data import BaseData, DataEdgeAttr, DataTensorAttr
from torch_geometric.data.storage import BaseStorage, EdgeStorage, GlobalStorage, NodeStorage

from varigraph.data.opened_files import (
    ARRAYS,
    check_unpacked,
    check_whole,
    first_line,
    regular,
    size_of,
)
from varigraph.errors import FileError, VarigraphError

ZIP_MARK = b"PK\x03\x04"

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
        FileError: if it is damaged, holds what only code could bring back, or is too large once
            unpacked.
    """
    with regular(path) as stream:
        try:
            if stream.peek(len(ZIP_MARK)).startswith(ZIP_MARK):  # else torch's format before 1.6
                check_whole(path, stream)
            held = _unpickled(stream)
            _check_extent(path, held, packed=size_of(stream))
            return held
        except VarigraphError:
            raise
        except pickle.UnpicklingError as error:
            raise FileError(path, _refusal(str(error)), remedy) from error
        except Exception as error:  # damaged bytes fail in any way that they happen to suggest
            said = f"{type(error).__name__}: {first_line(error)}"
            raise FileError(path, f"cannot be read: {said}", remedy) from error


def _unpickled(stream: io.BufferedReader) -> Any:
    with warnings.catch_warnings(), torch.serialization.safe_globals(list(PARTS_OF_DATA)):
        warnings.simplefilter("ignore")  # torch's advice on formats; ours comes as an error
        return torch.load(stream, map_location="cpu", weights_only=True)


def _check_extent(path: Path, held: Any, *, packed: int) -> None:
    """A tensor may repeat a few stored numbers without end: its shape alone says how often."""
    extent = sum(tensor.numel() * tensor.element_size() for tensor in _tensors(held))
    check_unpacked(path, extent, packed=packed, always=ARRAYS)


def _tensors(held: Any) -> Iterator[Tensor]:
    """All dense tensors in whatever was read, which may go round in circles."""
    left, met = [held], set()
    while left:
        part = left.pop()
        if id(part) in met:
            continue
        met.add(id(part))
        if isinstance(part, Tensor):
            if part.layout == torch.strided:
                yield part
        elif isinstance(part, BaseData):
            left += [value for store in part.stores for value in store.values()]
        elif isinstance(part, Mapping):
            left += part.values()
        elif isinstance(part, list | tuple | set):
            left += part


def _refusal(said: str) -> str:
    culprit = re.search(r"GLOBAL (\S+)", said)
    if culprit is None:
        return "is not what torch.save writes, or is damaged"
    return f"holds {culprit[1]}, and bringing that back could run code; nothing was run"
