"""A graph that need not fit in memory: its fields as arrays, most of them on disk."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
from torch import Tensor
from torch_geometric.data import Data

from varigraph.errors import FileError, GraphError, OptionError

Array: TypeAlias = npt.NDArray[Any]
#: Links, or rows of a table, that are looked at together.
PIECE = 2**22
ENDS = ("source", "target")
FILES = (
    "x.npy, edge_index.npy and further fields by their names, or tables of links (with the columns "
    "source and target) and of nodes as .parquet"
)


@dataclass(frozen=True, eq=False)
class LargeGraph:
    """Fields of a graph, each an array in memory or mapped from a file.

    Args:
        source: where each link starts, ``[links]``.
        target: where it ends, ``[links]``.
        of_nodes: fields with a row for every node; ``x`` among them.
        of_links: fields with a row for every link.
        of_whole: all others, such as one variance for all features.
    """

    source: Array
    target: Array
    of_nodes: Mapping[str, Array]
    of_links: Mapping[str, Array]
    of_whole: Mapping[str, Array]

    @property
    def nodes(self) -> int:
        """Number of nodes."""
        return len(self.of_nodes["x"])

    @property
    def links(self) -> int:
        """Number of links, each direction counted."""
        return len(self.source)

    def pieces(self) -> Iterator[tuple[slice, Array, Array]]:
        """Links piece by piece: which, where they start and where they end."""
        for start in range(0, self.links, PIECE):
            some = slice(start, min(start + PIECE, self.links))
            yield some, np.asarray(self.source[some]), np.asarray(self.target[some])

    @classmethod
    def of(cls, fields: Mapping[str, Array]) -> LargeGraph:
        """A graph of its fields by their names.

        What has a row for every link and a name that says so, or as many rows as there are links
        and not nodes, is of links.

        Raises:
            GraphError: the fields do not fit together.
        """
        missing = [name for name in ("x", "edge_index") if name not in fields]
        if missing:
            raise GraphError(f"the graph has no {' and no '.join(missing)}", f"give {FILES}")
        ends, nodes = fields["edge_index"], len(fields["x"])
        if ends.ndim != 2 or len(ends) != 2 or ends.dtype.kind not in "iu":
            raise GraphError(
                f"edge_index has shape {ends.shape} and holds {ends.dtype}",
                "two rows of whole numbers: where links start and where they end",
            )
        kinds: dict[str, dict[str, Array]] = {"nodes": {}, "edges": {}, "whole": {}}
        for name, value in fields.items():
            if name != "edge_index":
                kinds[_kind(name, value, nodes, ends.shape[1])][name] = value
        return cls(ends[0], ends[1], kinds["nodes"], kinds["edges"], kinds["whole"])

    @classmethod
    def of_data(cls, data: Data) -> LargeGraph:
        """A graph that is in memory; what is no tensor or number, such as names, is left out."""
        if not isinstance(data, Data):
            raise OptionError(
                f"a {type(data).__name__} cannot be divided into parts",
                "give a graph with one kind of nodes: torch_geometric.data.Data, or files",
            )
        fields = {
            name: value.detach().cpu().numpy() if isinstance(value, Tensor) else np.asarray(value)
            for name, value in data
            if isinstance(value, (Tensor, float, int))
        }
        return cls.of(fields)

    def check(self) -> None:
        """Raises if links lead to nodes that there are not, or numbers are not finite."""
        for some, source, target in self.pieces():
            for ends in (source, target):
                wrong = (ends < 0) | (ends >= self.nodes)
                if wrong.any():
                    raise GraphError(
                        f"link {some.start + int(wrong.argmax())} has the end "
                        f"{int(ends[wrong.argmax()])}, and there are {self.nodes:,} nodes",
                        "number the nodes from 0",
                    )
        for name, values in {**self.of_nodes, **self.of_links, **self.of_whole}.items():
            _check_finite(name, values)
        for some in _slices(len(self.of_links.get("edge_prob", ()))):
            chances = self.of_links["edge_prob"][some]
            if ((chances < 0) | (chances > 1)).any():
                raise GraphError("edge_prob has chances below 0 or above 1", "give chances")


def _kind(name: str, value: Array, nodes: int, links: int) -> str:
    rows = value.shape[0] if value.ndim > 0 else -1
    about_links = name.startswith("edge_")
    if rows == links and (about_links or links != nodes):
        return "edges"
    return "nodes" if rows == nodes and not about_links else "whole"


def _slices(count: int) -> Iterator[slice]:
    for start in range(0, count, PIECE):
        yield slice(start, start + PIECE)


def _check_finite(name: str, values: Array) -> None:
    if values.dtype.kind != "f":
        return
    table = values.reshape(-1) if values.ndim == 0 else values
    for some in _slices(len(table)):
        if not np.isfinite(table[some]).all():
            raise GraphError(f"{name} holds numbers that are not finite", f"clean {name}")


def read_files(paths: Iterable[Path], scratch: Path) -> LargeGraph:
    """A graph from files: arrays are mapped, tables are read in pieces and put on disk as arrays.

    Args:
        paths: see :data:`FILES`.
        scratch: folder for arrays that are made of tables.

    Raises:
        FileError: a file cannot be read.
        GraphError: the fields do not fit together.
    """
    fields: dict[str, Array] = {}
    for path in paths:
        found = _read(path, scratch)
        twice = sorted(found.keys() & fields.keys())
        if twice:
            raise FileError(path, f"has {twice[0]}, which another file has too", "give one of them")
        fields.update(found)
    return LargeGraph.of(fields)


def _read(path: Path, scratch: Path) -> dict[str, Array]:
    if path.suffix == ".npy":
        try:
            return {path.stem: np.load(path, mmap_mode="r")}
        except (OSError, ValueError) as error:
            raise FileError(path, f"is no array: {error}", "write it by numpy.save") from error
    if path.suffix == ".parquet":
        return _read_table(path, scratch)
    raise FileError(path, "is none of the files that parts are made of", f"give {FILES}")


def _read_table(path: Path, scratch: Path) -> dict[str, Array]:
    try:
        from pyarrow import ArrowInvalid, parquet  # noqa: PLC0415 - optional
    except ModuleNotFoundError:
        raise FileError(
            path, "is a Parquet file, and pyarrow is missing", "pip install pyarrow, or give .npy"
        ) from None
    try:
        table = parquet.ParquetFile(path)
    except (OSError, ArrowInvalid) as error:
        raise FileError(path, f"cannot be read: {error}", "check the file") from error
    rows, names = table.metadata.num_rows, table.schema_arrow.names
    if all(end in names for end in ENDS):
        return _links_of(table, rows, [name for name in names if name not in ENDS], scratch)
    return _nodes_of(path, table, rows, names, scratch)


def _links_of(table: Any, rows: int, others: list[str], scratch: Path) -> dict[str, Array]:
    ends = _new(scratch / "edge_index.npy", (2, rows), np.int64)
    fields, done = dict[str, Array](), 0
    for batch in table.iter_batches(batch_size=PIECE):
        some = slice(done, done + batch.num_rows)
        for place, end in enumerate(ENDS):
            ends[place, some] = batch.column(end).to_numpy(zero_copy_only=False)
        for name in others:
            _put(fields, name, batch.column(name), rows, some, scratch)
        done += batch.num_rows
    return {"edge_index": ends, **fields}


def _nodes_of(
    path: Path, table: Any, rows: int, names: list[str], scratch: Path
) -> dict[str, Array]:
    """Features are the list column ``x``, or all columns ``x_0``, ``x_1`` and so on."""
    wide = sorted(
        (n for n in names if n.startswith("x_") and n[2:].isdigit()), key=lambda n: int(n[2:])
    )
    if "x" not in names and not wide:
        raise FileError(
            path,
            "has neither the columns source and target of links nor x of nodes",
            "name the columns source, target; or x (lists), or x_0, x_1, …",
        )
    fields, done = dict[str, Array](), 0
    for batch in table.iter_batches(batch_size=PIECE // max(1, len(names))):
        some = slice(done, done + batch.num_rows)
        if "node" in names:
            _check_order(path, batch.column("node").to_numpy(zero_copy_only=False), done)
        for name in set(names) - {"node", *wide}:
            _put(fields, name, batch.column(name), rows, some, scratch)
        if wide:
            columns = [batch.column(name).to_numpy(zero_copy_only=False) for name in wide]
            _write_rows(fields, "x", np.stack(columns, axis=1), rows, some, scratch)
        done += batch.num_rows
    return fields


def _check_order(path: Path, numbers: Array, first: int) -> None:
    if not np.array_equal(numbers, np.arange(first, first + len(numbers))):
        raise FileError(path, "its column node does not count 0, 1, 2, …", "sort it by node")


def _put(
    fields: dict[str, Array], name: str, column: Any, rows: int, some: slice, scratch: Path
) -> None:
    lists = getattr(column, "flatten", None) if "list" in str(column.type) else None
    values = (lists() if lists else column).to_numpy(zero_copy_only=False)
    if lists:
        values = values.reshape(some.stop - some.start, -1)
    elif name == "x_var":  # one variance for all features of a node
        values = values[:, None]
    _write_rows(fields, name, values, rows, some, scratch)


def _write_rows(
    fields: dict[str, Array], name: str, values: Array, rows: int, some: slice, scratch: Path
) -> None:
    if name not in fields:
        fields[name] = _new(scratch / f"{name}.npy", (rows, *values.shape[1:]), values.dtype)
    fields[name][some] = values


def _new(path: Path, shape: tuple[int, ...], kind: Any) -> Array:
    return np.lib.format.open_memmap(path, mode="w+", dtype=kind, shape=shape)
