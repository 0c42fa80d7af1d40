"""The citation graphs of Planetoid: eight files each, seven of them pickles of Python 2."""

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

from varigraph.data.archives import first_line
from varigraph.data.opened_files import regular
from varigraph.errors import FileError

PARTS = ("x", "tx", "allx", "y", "ty", "ally", "graph", "test.index")
#: Called with the name of each file and its SHA-256, before anything is made of its content.
Verify: TypeAlias = Callable[[str, str], None]

#: All that the pickles consist of, under the names of their time. None of it can run code.
HARMLESS: Mapping[tuple[str, str], Any] = {
    ("__builtin__", "list"): list,
    ("collections", "defaultdict"): defaultdict,
    ("numpy", "ndarray"): np.ndarray,
    ("numpy", "dtype"): np.dtype,
    ("numpy.core.multiarray", "_reconstruct"): np.empty(0).__reduce__()[0],
    ("scipy.sparse.csr", "csr_matrix"): csr_matrix,
}


def files(name: str) -> tuple[str, ...]:
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
    for part, file in zip(PARTS, files(name), strict=True):
        with regular(raw / file) as stream:
            content[part] = stream.read()
        verify(file, hashlib.sha256(content[part]).hexdigest())
    place = np.array(content.pop("test.index").split(), dtype=np.int64)  # [test nodes]
    held = {
        part: harmless(raw / file, content[part])
        for part, file in zip(PARTS, files(name), strict=True)
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
    kept: Tensor = remove_self_loops(torch.from_numpy(links))[0]
    return kept
