"""The parts of a graph on disk: what belongs together, and one part in memory."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from varigraph.distributed.large_graph import Array, LargeGraph
from varigraph.errors import FileError
from varigraph.files import replacing, write_json
from varigraph.files.fingerprint import digest, fingerprint

MANIFEST, RECORD = "manifest.json", "part.json"
VERSION = 2
WHOLE = "whole"
ANEW = "divide the graph again: varigraph partition"
BLOCK = 2**24
Numbers: TypeAlias = npt.NDArray[np.int64]


def folder_of(folder: Path, part: int) -> Path:
    """Where a part is."""
    return folder / f"part-{part:05d}"


def save(folder: Path, name: str, values: Array) -> None:
    """Write an array, whole or not at all."""
    with replacing(folder / f"{name}.npy") as stream:
        np.save(stream, values, allow_pickle=False)


def record_of_files(folder: Path, part: int) -> None:
    """Write down which files a part has, and what is in them."""
    files = {file.name: _content(file) for file in sorted(folder.glob("*.npy"))}
    write_json(folder / RECORD, {"part": part, "files": files})


def _content(file: Path) -> dict[str, Any]:
    found = hashlib.sha256()
    with file.open("rb") as stream:
        while block := stream.read(BLOCK):
            found.update(block)
    return {"bytes": file.stat().st_size, "sha256": found.hexdigest()[:16]}


def write_manifest(folder: Path, graph: LargeGraph, parts: int, by: str) -> None:
    """Write down what the parts are parts of, once all are there."""
    whole = folder / WHOLE
    whole.mkdir()
    for name, values in graph.of_whole.items():
        save(whole, name, values)
    record_of_files(whole, -1)
    counts = [_counts(folder_of(folder, part)) for part in range(parts)]
    about = {
        "version": VERSION,
        "nodes": graph.nodes,
        "links": graph.links,
        "loops": sum(each["loops"] for each in counts),
        "by": by,
        "noisy": _any(graph, "x_var", lambda var: var > 0),
        "uncertain_links": _any(graph, "edge_prob", lambda prob: prob < 1),
        "parts": counts,
        "whole": digest((whole / RECORD).read_bytes()),
    }
    write_json(folder / MANIFEST, {**about, "fingerprint": fingerprint(about)})


def _counts(folder: Path) -> dict[str, Any]:
    ends = np.load(folder / "edge_index.npy", mmap_mode="r")
    own, far = (len(np.load(folder / f"{name}.npy", mmap_mode="r")) for name in ("own", "far"))
    return {
        "own": own,
        "far": far,
        "links": ends.shape[1],
        "loops": int((ends[0] == ends[1]).sum()),
        "record": digest((folder / RECORD).read_bytes()),
    }


def _any(graph: LargeGraph, name: str, holds: Any) -> bool:
    fields: Mapping[str, Array] = {**graph.of_nodes, **graph.of_links, **graph.of_whole}
    return name in fields and bool(holds(np.asarray(fields[name])).any())


@dataclass(frozen=True, eq=False)
class Partition:
    """A graph on disk in parts.

    Attributes:
        folder: where it is.
        nodes: number of nodes.
        links: number of links, each direction counted.
        noisy: whether there is noise in the features.
        uncertain_links: whether any link may be missing.
        fingerprint: tells this graph and its parts from others.
    """

    folder: Path
    nodes: int
    links: int
    loops: int
    noisy: bool
    uncertain_links: bool
    fingerprint: str
    _parts: tuple[Mapping[str, Any], ...]
    _whole: str

    @classmethod
    def read(cls, folder: Path | str) -> Partition:
        """Read what was written about the parts; they themselves stay on disk.

        Raises:
            FileError: there are no parts, or they were not finished.
        """
        path = Path(folder) / MANIFEST
        try:
            about = json.loads(path.read_text())
            said = about.pop("fingerprint")
            if said != fingerprint(about) or about["version"] != VERSION:
                raise FileError(path, "is damaged, or of another version", ANEW)
        except (OSError, ValueError, KeyError, AttributeError) as error:
            if isinstance(error, FileError):
                raise
            raise FileError(path, "is missing or damaged: there are no whole parts", ANEW) from None
        return cls(
            Path(folder),
            about["nodes"],
            about["links"],
            about["loops"],
            about["noisy"],
            about["uncertain_links"],
            said,
            tuple(about["parts"]),
            about["whole"],
        )

    @property
    def parts(self) -> int:
        """How many parts there are."""
        return len(self._parts)

    @property
    def rows_exchanged(self) -> int:
        """Rows that travel between parts whenever a layer sums over neighbours."""
        return sum(part["far"] for part in self._parts)

    def counts(self, part: int) -> Mapping[str, Any]:
        """Own nodes, nodes of other parts that are looked at, and links of a part."""
        return self._parts[part]

    def open(self, part: int) -> Part:
        """A part, whose arrays are mapped from its files.

        Raises:
            FileError: it is missing, damaged, or a part of another graph.
        """
        folder = folder_of(self.folder, part)
        _check(folder, part, self._parts[part]["record"])
        _check(self.folder / WHOLE, -1, self._whole)
        return Part(self, part, folder)


def _check(folder: Path, part: int, record: str) -> None:
    try:
        content = (folder / RECORD).read_bytes()
        about = json.loads(content)
    except (OSError, ValueError):
        raise FileError(folder, "is missing, or was never finished", ANEW) from None
    if digest(content) != record or about["part"] != part:
        raise FileError(folder, f"does not belong here: it is not part {part} of this graph", ANEW)
    for name, said in about["files"].items():
        file = folder / name
        if not file.exists() or file.stat().st_size != said["bytes"]:
            raise FileError(file, "is missing, or has another size than when it was written", ANEW)


@dataclass(frozen=True, eq=False)
class Part:
    """One part of a graph: its own nodes, and those of other parts that their links start at.

    Rows are own nodes first, in the order of their numbers, then the others, by the part that has
    them. :class:`~varigraph.distributed.share.Share` makes a graph of them.

    Args:
        whole: what it is a part of.
        number: of this part.
        folder: where it is.
    """

    whole: Partition
    number: int
    folder: Path

    def _array(self, name: str) -> Array:
        found: Array = np.load(self.folder / f"{name}.npy", mmap_mode="c", allow_pickle=False)
        return found

    @cached_property
    def own(self) -> Numbers:  # [own]
        """Numbers of its own nodes in the whole graph."""
        return self._array("own")

    @cached_property
    def far(self) -> Numbers:  # [far]
        """Numbers of the others."""
        return self._array("far")

    @cached_property
    def sent(self) -> Tensor:  # [sent]
        """Own rows that others ask for, those of the first part first."""
        return torch.from_numpy(self._array("sent"))

    @cached_property
    def sent_counts(self) -> list[int]:
        """How many each part asks for."""
        counts: list[int] = self._array("sent_counts").tolist()
        return counts

    @cached_property
    def far_counts(self) -> list[int]:
        """How many are asked of each part."""
        counts: list[int] = self._array("far_counts").tolist()
        return counts

    @property
    def edge_index(self) -> Numbers:  # [2, links]
        """Places of the ends of links among own nodes and, behind them, the others."""
        return self._array("edge_index")

    @property
    def links(self) -> Numbers:  # [links]
        """Numbers of the links in the whole graph."""
        return self._array("link")

    def leading_to(self, rows: Numbers) -> Numbers:  # [rows] -> [links]
        """Places of the links that lead to some of its own nodes."""
        start, order = self._array("links_before"), self._array("links_in_order")
        first, count = start[rows], start[rows + 1] - start[rows]
        ahead = np.repeat(first - (np.cumsum(count) - count), count)
        found: Numbers = order[np.arange(count.sum()) + ahead]
        return found

    @property
    def loops_before(self) -> Numbers:  # [links]
        """How many links that lead from a node to itself stand before each in the whole graph."""
        return self._array("loops_before")

    @property
    def coins(self) -> Numbers | None:  # [links]
        """Numbers of the coins of the links; None where links have no chances."""
        return self._array("coin") if (self.folder / "coin.npy").exists() else None

    @property
    def node_fields(self) -> list[str]:
        """Fields with a row for every node."""
        return [_field(file) for file in sorted(self.folder.glob("node.*.npy"))]

    @property
    def link_fields(self) -> list[str]:
        """Fields with a row for every link."""
        return [_field(file) for file in sorted(self.folder.glob("link.*.npy"))]

    def node_field(self, name: str) -> Array:  # [own + far, ...]
        """A field of its own nodes and of the others."""
        return self._array(f"node.{name}")

    def link_field(self, name: str) -> Array:  # [links, ...]
        """A field of its links."""
        return self._array(f"link.{name}")

    def of_whole(self) -> Iterator[tuple[str, Tensor | float]]:
        """Fields of the whole graph, such as one variance for all features."""
        for file in sorted((self.whole.folder / WHOLE).glob("*.npy")):
            values = torch.from_numpy(np.load(file, allow_pickle=False))
            yield file.stem, values if values.dim() else values.item()


def _field(file: Path) -> str:
    return file.stem.partition(".")[2]
