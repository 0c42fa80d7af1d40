"""Graphs and weights of the user's own files, read without running code."""

from __future__ import annotations

import io
import pickle
import re
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn
from torch.nn.parameter import is_lazy
from torch_geometric.data import Data, HeteroData
from torch_geometric.data.data import BaseData, DataEdgeAttr, DataTensorAttr
from torch_geometric.data.storage import BaseStorage, EdgeStorage, GlobalStorage, NodeStorage

from varigraph.choices import DATASETS
from varigraph.data import load
from varigraph.data.graph_parts import FIELDS, intended
from varigraph.data.link_tables import Reading
from varigraph.data.node_tables import read_tables
from varigraph.data.opened_files import (
    ARRAYS,
    check_unpacked,
    check_whole,
    first_line,
    opened_arrays,
    regular,
    size_of,
)
from varigraph.errors import (
    DatasetError,
    FileError,
    GraphError,
    ModelError,
    OptionError,
    VarigraphError,
)

#: What a dict or an ``.npz`` may hold, besides masks of nodes. Anything else is refused: under a
#: misspelt name the probabilities of links would be ignored in silence.
KNOWN = (
    *("x", "edge_index", "x_var", "edge_prob", "y", "node_names", "class_names"),
    *FIELDS,
    *(f"{name}_var" for name in FIELDS),
    "feature_names",
)
SAVE_DATA = "torch.save(Data(x=..., edge_index=...), 'graph.pt')"


def read_graph(source: str, *, root: Path | None = None, seed: int = 0) -> Data:
    """A data set by its name, or the graph of a file.

    Args:
        source: one of :data:`varigraph.choices.DATASETS`; a folder with ``nodes.csv`` and
            ``links.csv``, as :func:`varigraph.read_tables` reads them; a ``.pt`` file of a ``Data``
            or of a dict of tensors; or an ``.npz`` file with ``x``, ``edge_index`` and, if known,
            other fields of :data:`KNOWN`.
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
    if path.is_dir():
        return read_tables(path / "nodes.csv", path / "links.csv")
    if not path.is_file():
        raise DatasetError(
            f"{source} is no file, folder or data set; data sets are {', '.join(DATASETS)}",
            "correct the name or the path",
        )
    kind = path.suffix.lower()
    if kind == ".npz":
        return _with_names(Data(**_graph_arrays(path)))
    if kind in {".pt", ".pth"}:
        return _with_names(_saved_graph(path))
    raise FileError(path, f"graphs are not read from {kind or 'such'} files", SAVE_DATA)


def _saved_graph(path: Path) -> Data:
    held = read_pickle(path, remedy=SAVE_DATA)
    if isinstance(held, tuple) and len(held) > 1 and held[1] is None:
        held = held[0]  # what torch_geometric stores of a data set that is one graph
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


def _graph_arrays(path: Path) -> dict[str, Any]:
    with opened_arrays(path) as stored:
        _check_names(path, stored.files)
        return {name: _graph_value(name, stored[name]) for name in stored.files}


def _graph_value(name: str, array: npt.NDArray[Any]) -> Tensor | list[str]:
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


def _with_names(graph: Data) -> Data:
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


#: Names under which training scripts store the weights next to other things.
WRAPPERS = ("state_dict", "model_state_dict", "model")
SAVE_WEIGHTS = "save the weights alone: torch.save(model.state_dict(), 'weights.pt')"
#: What DataParallel and torch.compile put before every name.
PREFIXES = ("module.", "_orig_mod.")
#: Names of weights to put into a message.
NAMES_SHOWN = 4


def load_weights(model: nn.Module, path: Path) -> None:
    """Put the weights of a file into a network; all of them must fit.

    Args:
        model: the network, which takes on float64 where the file has it.
        path: a ``.safetensors`` file, or a state dict by ``torch.save``; of a dict with more in
            it, what is under one of :data:`WRAPPERS`.

    Raises:
        FileError: if there are no weights in the file, or only with code.
        ModelError: if weights are missing, left over or of another shape.
    """
    state = _without_prefix(read_weights(path), model)
    _check_fit(model, state, path)
    if any(value.dtype == torch.float64 for value in state.values()):
        model.double()
    try:
        model.load_state_dict(dict(state))
    except RuntimeError as error:
        raise ModelError(
            f"{path} does not fit {type(model).__name__}: {str(error).strip().splitlines()[-1]}",
            "give the network the --arguments that it was trained with",
        ) from error


def read_weights(path: Path) -> Mapping[str, Tensor]:
    """The tensors of a file, by their names.

    Args:
        path: as in :func:`load_weights`.
    """
    if path.suffix.lower() == ".safetensors":
        return _safetensors(path)
    state: Any = read_pickle(path, remedy=SAVE_WEIGHTS)
    if isinstance(state, dict) and not _is_state(state):
        state = next((state[name] for name in WRAPPERS if _is_state(state.get(name))), state)
    if not _is_state(state):
        raise FileError(path, f"holds {_described(state)}, not a state dict", SAVE_WEIGHTS)
    return dict(state)


def _without_prefix(state: Mapping[str, Tensor], model: nn.Module) -> Mapping[str, Tensor]:
    """Weights by the names of the network that was wrapped when they were saved."""
    own = model.state_dict()
    for prefix in PREFIXES:
        if all(name.startswith(prefix) and name not in own for name in state):
            state = {name.removeprefix(prefix): value for name, value in state.items()}
    return state


def _safetensors(path: Path) -> Mapping[str, Tensor]:
    try:
        from safetensors.torch import load_file  # noqa: PLC0415 - optional dependency
    except ModuleNotFoundError as error:
        raise OptionError(
            f"{path} needs safetensors, which is not installed", "pip install safetensors"
        ) from error
    with regular(path):  # kept open, so that what was looked at is not a pipe
        try:
            state: dict[str, Tensor] = load_file(path)
        except Exception as error:  # its own kind, which is not the same in all versions
            raise FileError(path, f"is not a safetensors file: {error}", "save it again") from error
    return state


def _is_state(value: Any) -> bool:
    return (
        isinstance(value, dict)
        and len(value) > 0
        and all(isinstance(name, str) for name in value)
        and all(isinstance(tensor, Tensor) for tensor in value.values())
    )


def _described(value: Any) -> str:
    if isinstance(value, dict):
        return f"a dict of {_names([str(name) for name in value])}" if value else "an empty dict"
    return f"a {type(value).__name__}"


def _check_fit(model: nn.Module, state: Mapping[str, Tensor], path: Path) -> None:
    own = model.state_dict()
    kind = type(model).__name__
    problems = []
    if missing := [name for name in own if name not in state]:
        problems.append(f"lacks {_names(missing)}")
    if unexpected := [name for name in state if name not in own]:
        problems.append(f"has {_names(unexpected)}, unknown to {kind}")
    problems += [
        f"has {name} of shape {tuple(state[name].shape)} where {kind} has {tuple(value.shape)}"
        for name, value in own.items()
        if name in state and not is_lazy(value) and state[name].shape != value.shape
    ][:NAMES_SHOWN]
    if problems:
        raise ModelError(
            f"{path} does not fit {kind}: it {'; it '.join(problems)}",
            "give the network the --arguments that it was trained with, and the names of weights "
            "as its state_dict() has them",
        )


def _names(names: Sequence[str]) -> str:
    more = len(names) - NAMES_SHOWN
    return ", ".join(names[:NAMES_SHOWN]) + (f" and {more} more" if more > 0 else "")


ZIP_MARK = b"PK\x03\x04"

#: What a saved ``Data`` consists of, besides the classes that torch_geometric itself names as safe.
#: Their constructors keep what they are given, and do nothing else. The last is our own remark on a
#: graph that ``vg.read_links`` made: counts.
PARTS_OF_DATA = (
    *(DataEdgeAttr, DataTensorAttr),
    *(BaseStorage, EdgeStorage, GlobalStorage, NodeStorage),
    Reading,
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
    """All dense tensors in whatever was read, which may contain itself."""
    left, met = [held], set[_Same]()
    while left:
        part = left.pop()
        if _Same(part) in met:
            continue
        met.add(_Same(part))
        if isinstance(part, Tensor):
            if part.layout == torch.strided:
                yield part
        elif isinstance(part, BaseData):
            left += [value for store in part.stores for value in store.values()]
        elif isinstance(part, Mapping):
            left += part.values()
        elif isinstance(part, list | tuple | set):
            left += part


@dataclass(frozen=True, eq=False)
class _Same:
    """An object as a key that only that object equals, whether or not it can be hashed."""

    value: Any

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Same) and other.value is self.value

    def __hash__(self) -> int:
        return object.__hash__(self.value)


def _refusal(said: str) -> str:
    named = re.search(r"GLOBAL (\S+)", said)
    if named is None:
        return "is not what torch.save writes, or is damaged"
    return f"holds {named[1]}, and bringing that back could run code; nothing was run"
