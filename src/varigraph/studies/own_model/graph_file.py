"""A graph by its name or from a file, read without running code."""

from __future__ import annotations

from difflib import get_close_matches
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from torch_geometric.data import Data, HeteroData

from varigraph.data import DATASETS, load
from varigraph.data.graph_checks import intended
from varigraph.data.opened_files import opened_arrays
from varigraph.errors import DatasetError, FileError, GraphError
from varigraph.studies.own_model.pickles import read_pickle

#: What a dict or an ``.npz`` may hold, besides masks of nodes. Anything else is refused: under a
#: misspelt name the probabilities of links would be ignored in silence.
KNOWN = (
    *("x", "edge_index", "x_var", "edge_prob", "y", "node_names", "class_names"),
    *("edge_weight", "edge_attr", "pos"),
)
SAVE_DATA = "torch.save(Data(x=..., edge_index=...), 'graph.pt')"


def read_graph(source: str, *, root: Path | None = None, seed: int = 0) -> Data:
    """A data set by its name, or the graph of a file.

    Args:
        source: one of :data:`varigraph.data.DATASETS`; a ``.pt`` file of a ``Data`` or of a dict
            of tensors; or an ``.npz`` file with ``x``, ``edge_index`` and, if known, ``x_var``,
            ``edge_prob``, ``y`` and ``node_names``.
        root: folder that holds the data sets.
        seed: of the split of a data set.

    Raises:
        DatasetError: if there is neither a data set nor a file of that name.
        FileError: if the file cannot be right.
        GraphError: if there are not as many names as nodes.
    """
    if source.lower() in DATASETS:
        return load(source, root=root, seed=seed)
    path = Path(source).expanduser()
    if not path.is_file():
        raise DatasetError(
            f"{source} is no file, and no data set either; these are {', '.join(DATASETS)}",
            "correct the name or the path",
        )
    kind = path.suffix.lower()
    if kind == ".npz":
        return _named(Data(**_arrays(path)))
    if kind in {".pt", ".pth"}:
        return _named(_saved(path))
    raise FileError(path, f"graphs are not read from {kind or 'such'} files", SAVE_DATA)


def _saved(path: Path) -> Data:
    held = read_pickle(path, remedy=SAVE_DATA)
    if isinstance(held, tuple) and len(held) > 1 and held[1] is None:
        held = held[0]  # what torch_geometric keeps of a data set that is one graph
    if isinstance(held, HeteroData):
        raise GraphError(
            f"{path} holds a HeteroData; only homogeneous graphs are supported for now",
            "graph.to_homogeneous(), if its node types share their features",
        )
    try:
        if isinstance(held, Data):
            _check_noise(path, list(held.to_dict()))
            return Data(**held.to_dict())
        if isinstance(held, dict):
            _check_names(path, [str(name) for name in held])
            return Data(**held)
    except (AttributeError, TypeError, KeyError) as error:  # put together by other hands
        raise FileError(path, f"holds no whole Data: {error}", SAVE_DATA) from error
    raise FileError(path, f"holds a {type(held).__name__}, not one graph", SAVE_DATA)


def _arrays(path: Path) -> dict[str, Any]:
    with opened_arrays(path) as stored:
        _check_names(path, stored.files)
        return {name: _value(name, stored[name]) for name in stored.files}


def _value(name: str, array: npt.NDArray[Any]) -> Tensor | list[str]:
    if array.dtype.kind == "S":
        array = np.char.decode(array, "utf-8")
    if array.dtype.kind == "U":
        return [str(text) for text in array.reshape(-1).tolist()]
    if array.dtype.kind in "iu" and name in {"edge_index", "y"}:
        return torch.from_numpy(array.astype(np.int64))
    return torch.from_numpy(np.ascontiguousarray(array, dtype=array.dtype.newbyteorder("=")))


def _check_names(path: Path, names: list[str]) -> None:
    for name in names:
        if name not in KNOWN and not name.endswith("_mask"):
            near = intended(name) or next(iter(get_close_matches(name, KNOWN, n=1)), None)
            raise _unknown(path, name, near)


def _check_noise(path: Path, names: list[str]) -> None:
    """A Data may have anything of its own; only what is nearly the name of noise is refused."""
    for name in names:
        if near := intended(name):
            raise _unknown(path, name, near)


def _unknown(path: Path, name: str, near: str | None) -> FileError:
    known = f"use the names {', '.join(KNOWN)} or ..._mask, and leave the rest out"
    remedy = f"did you mean {near}? rename it" if near else known
    return FileError(path, f"has {name!r}, whose meaning is unknown", remedy)


def _named(graph: Data) -> Data:
    names = graph.get("node_names")
    if names is None or not isinstance(graph.x, Tensor):
        return graph
    values = names.tolist() if isinstance(names, Tensor) else list(names)
    if len(values) != len(graph.x):
        raise GraphError(
            f"there are {len(values)} node_names for {len(graph.x)} nodes",
            "give every node a name, or leave node_names out",
        )
    graph.node_names = [str(value) for value in values]
    return graph
