"""Raw files of data sets, read without running code.

Planetoid's citation graphs have eight files each, seven of them pickles of Python 2; the graphs
of products that are bought together, from gnn-benchmark, are one .npz each.
"""

from __future__ import annotations

import hashlib
import io
import pickle
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.sparse import csr_matrix
from torch import Tensor
from torch_geometric.data import Data
from torch_geometric.utils import remove_self_loops

from varigraph.data.opened_files import ARRAYS, check_unpacked, first_line, opened_arrays, regular
from varigraph.errors import FileError

#: Called with the name of each file and its SHA-256, before anything is made of its content.
Verify: TypeAlias = Callable[[str, str], None]
Arrays: TypeAlias = Mapping[str, NDArray[Any]]
PARTS = ("x", "tx", "allx", "y", "ty", "ally", "graph", "test.index")
#: The parts of a sparse matrix, and the arrays that are read; a file may hold others.
MATRIX = ("data", "indices", "indptr", "shape")
NAMES = (*(f"adj_{part}" for part in MATRIX), *(f"attr_{part}" for part in MATRIX), "labels")

#: All that the pickles consist of, under the names of their time. None of it can run code.
HARMLESS: Mapping[tuple[str, str], Any] = {
    ("__builtin__", "list"): list,
    ("collections", "defaultdict"): defaultdict,
    ("numpy", "ndarray"): np.ndarray,
    ("numpy", "dtype"): np.dtype,
    ("numpy.core.multiarray", "_reconstruct"): np.empty(0).__reduce__()[0],
    ("scipy.sparse.csr", "csr_matrix"): csr_matrix,
}


def planetoid_files(name: str) -> tuple[str, ...]:
    """The raw files of a data set, one for each of :data:`PARTS`."""
    return tuple(f"ind.{name.lower()}.{part}" for part in PARTS)


def read_planetoid(raw: Path, name: str, verify: Verify) -> Data:
    """Features ``x``, labels ``y`` and ``edge_index`` in the direction of the citations.

    Test nodes stand in the order of ``test.index``; those that it leaves out have no features.

    Args:
        raw: the folder of the files.
        name: of the data set.
        verify: raises if a file is not what it should be.
    """
    content = {}
    for part, file in zip(PARTS, planetoid_files(name), strict=True):
        with regular(raw / file) as stream:
            content[part] = stream.read()
        verify(file, hashlib.sha256(content[part]).hexdigest())
    place = np.array(content.pop("test.index").split(), dtype=np.int64)  # [test nodes]
    held = {
        part: harmless(raw / file, content[part])
        for part, file in zip(PARTS, planetoid_files(name), strict=True)
        if part in content
    }
    x = _in_place(_dense(held["allx"]), _dense(held["tx"]), place)
    y = _in_place(_dense(held["ally"]), _dense(held["ty"]), place).argmax(axis=1)
    links = _links(held["graph"], nodes=len(x))
    return Data(x=torch.from_numpy(x), y=torch.from_numpy(y), edge_index=links)


def harmless(path: Path, pickled: bytes) -> Any:
    """What a pickle holds, of nothing but arrays, sparse matrices, lists and dicts.

    Args:
        path: the file, for messages.
        pickled: its content.

    Raises:
        FileError: naming the first thing that is none of these; it is not called.
    """
    try:
        return _Unpickler(io.BytesIO(pickled), encoding="latin1").load()
    except Exception as error:  # damaged bytes fail in any way that they happen to suggest
        raise FileError(path, first_line(error), "fetch it again") from error


class _Unpickler(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        try:
            return HARMLESS[module, name]
        except KeyError:
            raise pickle.UnpicklingError(
                f"it holds {module}.{name}, which could run code; nothing was run"
            ) from None


def _dense(held: Any) -> NDArray[np.float32]:
    if isinstance(held, csr_matrix):
        held.check_format(full_check=True)  # an index out of bounds would be written to
        held = held.toarray()
    return np.asarray(held, dtype=np.float32)


def _in_place(
    known: NDArray[np.float32],  # [other nodes, columns]
    tested: NDArray[np.float32],  # [test nodes, columns]
    place: NDArray[np.int64],  # [test nodes]
) -> NDArray[np.float32]:  # [nodes, columns]
    rows = np.zeros((int(place.max()) + 1, known.shape[1]), dtype=np.float32)
    rows[: len(known)] = known
    rows[place] = tested
    return rows


def _links(graph: Mapping[int, Sequence[int]], *, nodes: int) -> Tensor:  # -> [2, edges]
    degrees = [len(neighbours) for neighbours in graph.values()]
    sources = np.repeat(np.fromiter(graph, dtype=np.int64), degrees)
    targets = np.fromiter(chain.from_iterable(graph.values()), dtype=np.int64)
    links = np.stack([sources, targets])
    if links.min() < 0 or links.max() >= nodes:
        raise ValueError(f"a link leads to a node that is none of the {nodes}")
    without_self_links: Tensor = remove_self_loops(torch.from_numpy(links))[0]
    return without_self_links


def amazon_file(name: str) -> str:
    """The raw file of a data set."""
    return f"amazon_electronics_{name.lower()}.npz"


def read_amazon(raw: Path, name: str, verify: Verify) -> Data:
    """Features ``x``, 0 or 1, labels ``y`` and ``edge_index`` in the direction of the purchases.

    Args:
        raw: the folder of the file.
        name: of the data set.
        verify: raises if the arrays are not what they should be.
    """
    path = raw / amazon_file(name)
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
