"""Graphs of products that are bought together: one ``.npz`` each, from gnn-benchmark."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.sparse import csr_matrix
from torch_geometric.data import Data
from torch_geometric.utils import remove_self_loops

from varigraph.data.archives import opened_arrays
from varigraph.data.planetoid import Verify
from varigraph.data.unpacked_sizes import ARRAYS, check_unpacked

Arrays: TypeAlias = Mapping[str, NDArray[Any]]
#: The parts of a sparse matrix, and the arrays that are read; a file may hold others.
MATRIX = ("data", "indices", "indptr", "shape")
NAMES = (*(f"adj_{part}" for part in MATRIX), *(f"attr_{part}" for part in MATRIX), "labels")


def file(name: str) -> str:
    """The raw file of a data set."""
    return f"amazon_electronics_{name.lower()}.npz"


def read_amazon(raw: Path, name: str, verify: Verify) -> Data:
    """Features ``x``, 0 or 1, labels ``y`` and ``edge_index`` in the direction of the purchases.

    Args:
        raw: the folder of the file.
        name: of the data set.
        verify: raises if the arrays are not what they should be.
    """
    path = raw / file(name)
    with opened_arrays(path) as stored:
        arrays = {name: stored[name] for name in NAMES}
    verify(path.name, arrays_sha256(arrays))
    words, links = _matrix(arrays, "attr"), _matrix(arrays, "adj").tocoo()
    nodes, features = words.shape
    check_unpacked(path, 4 * nodes * features, packed=path.stat().st_size, always=ARRAYS)
    ends = torch.from_numpy(np.stack([links.row, links.col]).astype(np.int64))
    return Data(
        x=torch.from_numpy((words > 0).toarray()).float(),
        y=torch.from_numpy(arrays["labels"].astype(np.int64)),
        edge_index=remove_self_loops(ends)[0],
    )


def arrays_sha256(arrays: Arrays) -> str:
    """SHA-256 of the numbers in the arrays, whatever their precision and their packing."""
    found = hashlib.sha256()
    for name, array in sorted(arrays.items()):
        number = "<f8" if array.dtype.kind == "f" else "<i8"
        found.update(f"{name} {array.shape}\n".encode())
        found.update(np.ascontiguousarray(array, dtype=number).tobytes())
    return found.hexdigest()


def _matrix(arrays: Arrays, name: str) -> csr_matrix:
    data, indices, indptr, shape = (arrays[f"{name}_{part}"] for part in MATRIX)
    matrix = csr_matrix((data, indices, indptr), shape=tuple(shape.tolist()))
    matrix.check_format(full_check=True)  # an index out of bounds would be written to
    return matrix
