"""A graph divided into parts, each with all that its own nodes need, and what others ask of it."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np
import torch
from torch_geometric.data import Data

from varigraph.distributed.large_graph import Array, LargeGraph, read_files
from varigraph.distributed.parts import (
    Partition,
    folder_of,
    record_of_files,
    save,
    write_manifest,
)
from varigraph.errors import OptionError
from varigraph.files import locked
from varigraph.moments.links import coins_of
from varigraph.options import one_of, whole

By = Literal["auto", "metis", "range", "hash"]
#: Called with the parts written and their number.
Progress = Callable[[int, int], None]
MOST_PARTS = 2**15
#: Links whose coins are numbered together.
COINS_AT_ONCE = 2**24
#: Odd, near 2**64 times the golden section: spreads neighbouring numbers over all others.
SPREAD = np.uint64(0x9E3779B97F4A7C15)
SCRATCH = "scratch"


def partition(
    graph: Data | Sequence[Path | str],
    folder: Path | str,
    *,
    parts: int,
    by: By = "auto",
    progress: Progress | None = None,
) -> Partition:
    """Divide a graph into parts that processes work on, each with one of them in memory.

    A part has its own nodes, the links that lead to them, and a copy of the features of the nodes
    at the other ends of these. Beside that it has the numbers of its nodes, links and coins in the
    whole graph, by which draws are made: the answer does not depend on the parts.

    Args:
        graph: in memory, or files: ``x.npy``, ``edge_index.npy`` and further fields by their names;
            or tables in Parquet, of links with the columns ``source`` and ``target``, of nodes with
            ``x`` (lists) or ``x_0``, ``x_1`` and so on. Files are read in pieces.
        folder: to write; one that exists must be empty.
        parts: how many.
        by: ``"metis"``: few links between parts, where ``pymetis`` is installed and the graph fits
            in memory. ``"range"``: nodes that follow each other, cut so that parts have about as
            many links. ``"hash"``: by a number made of the node's own. ``"auto"``: the first if it
            is installed, else the second.
        progress: called with the parts written and their number.

    Returns:
        What was written, see :class:`~varigraph.distributed.Partition`.

    Raises:
        GraphError: the graph cannot be right.
        FileError: a file cannot be read or written.
        OptionError: an option has a value that makes no sense.
    """
    folder, count = Path(folder), whole("parts", parts, least=1, most=MOST_PARTS, remedy="parts=4")
    by = one_of("by", by, get_args(By))
    if folder.exists() and any(folder.iterdir()):
        raise OptionError(f"{folder} exists and is not empty", "choose another folder with --out")
    with locked(folder):
        scratch = folder / SCRATCH
        scratch.mkdir()
        if isinstance(graph, Data):
            large = LargeGraph.of_data(graph)
        else:
            large = read_files([Path(path) for path in graph], scratch)
        large.check()
        if count > large.nodes:
            raise OptionError(f"{count} parts of {large.nodes} nodes", f"parts={large.nodes}")
        owner = OWNERS[_chosen(by)](large, count)
        _check_none_empty(owner, count)
        _write_parts(large, owner, folder, count, progress or (lambda done, total: None))
        _write_sent(folder, count)
        write_manifest(folder, large, count, by)
        shutil.rmtree(scratch)
    return Partition.read(folder)


def _check_none_empty(owner: Array, parts: int) -> None:
    empty = np.flatnonzero(np.bincount(owner, minlength=parts) == 0)
    if len(empty):
        raise OptionError(f"part {empty[0]} would have no node", "fewer parts, or by='range'")


def _chosen(by: str) -> str:
    there = find_spec("pymetis") is not None
    if by == "metis" and not there:
        raise OptionError(
            "by='metis' needs pymetis, which is not installed", "pip install pymetis, or by='range'"
        )
    return ("metis" if there else "range") if by == "auto" else by


def _by_hash(graph: LargeGraph, parts: int) -> Array:  # -> [nodes]
    mixed = np.arange(graph.nodes, dtype=np.uint64) * SPREAD
    mixed ^= mixed >> np.uint64(32)
    owner: Array = (mixed * SPREAD % np.uint64(parts)).astype(np.int32)
    return owner


def _by_range(graph: LargeGraph, parts: int) -> Array:  # -> [nodes]
    load = np.ones(graph.nodes, dtype=np.int64)
    for _, _, target in graph.pieces():
        load += np.bincount(target, minlength=graph.nodes)
    before = np.cumsum(load) - load
    found = before * parts // max(1, int(load.sum()))
    # A hub may be more than a part's share: no part stays without a node.
    least = np.arange(graph.nodes) - (graph.nodes - parts)
    return np.maximum(_gapless(found), least).astype(np.int32)


def _gapless(owner: Array) -> Array:
    """The same with parts that nobody is in given to the nodes that follow."""
    steps = np.minimum(np.diff(owner, prepend=owner[:1]), 1)
    found: Array = np.cumsum(steps)
    return found


def _by_metis(graph: LargeGraph, parts: int) -> Array:  # -> [nodes]
    ends = np.concatenate([graph.source, graph.target])
    others = np.concatenate([graph.target, graph.source])
    apart = ends != others
    order = np.argsort(ends[apart], kind="stable")
    start = np.concatenate([[0], np.cumsum(np.bincount(ends[apart], minlength=graph.nodes))])
    pymetis = import_module("pymetis")
    _, owner = pymetis.part_graph(parts, xadj=start, adjncy=others[apart][order])
    return np.asarray(owner, dtype=np.int32)


OWNERS: dict[str, Callable[[LargeGraph, int], Array]] = {
    "hash": _by_hash,
    "range": _by_range,
    "metis": _by_metis,
}


def _write_parts(
    graph: LargeGraph, owner: Array, folder: Path, parts: int, progress: Progress
) -> None:
    """All that a part knows by itself."""
    numbers = [folder / SCRATCH / f"links-{part}" for part in range(parts)]
    _deal(graph, owner, numbers)
    coins = _coins(graph, folder / SCRATCH)
    loops = _loops(graph)
    for part, file in enumerate(numbers):
        into = folder_of(folder, part)
        into.mkdir()
        links = np.fromfile(file, dtype=np.int64)
        own = np.flatnonzero(owner == part)
        source = np.asarray(graph.source[links])
        far = np.unique(source[owner[source] != part])
        far = far[np.argsort(owner[far], kind="stable")]  # in the order in which rows arrive
        save(into, "own", own)
        save(into, "far", far)
        save(into, "far_counts", np.bincount(owner[far], minlength=parts))
        ends = _local_links(graph, links, own, far)
        save(into, "edge_index", ends)
        save(into, "links_in_order", np.argsort(ends[1], kind="stable"))
        led_to = np.bincount(ends[1], minlength=len(own))
        save(into, "links_before", np.concatenate([[0], np.cumsum(led_to)]))
        save(into, "link", links)
        save(into, "loops_before", np.searchsorted(loops, links))
        if coins is not None:
            save(into, "coin", coins[links])
        for name, values in graph.of_links.items():
            save(into, f"link.{name}", values[links])
        for name, values in graph.of_nodes.items():
            save(into, f"node.{name}", np.concatenate([values[own], values[far]]))
        file.unlink()
        progress(part + 1, parts)


def _loops(graph: LargeGraph) -> Array:
    """Numbers of the links that lead from a node to itself."""
    found = [some.start + np.flatnonzero(source == end) for some, source, end in graph.pieces()]
    return np.concatenate([np.empty(0, dtype=np.int64), *found])


def _local_links(graph: LargeGraph, links: Array, own: Array, far: Array) -> Array:
    """Links by the places of their ends in the part: its own nodes first, then the others."""
    known = np.concatenate([own, far])
    order = np.argsort(known, kind="stable")
    ends = np.stack([graph.source[links], graph.target[links]])
    return order[np.searchsorted(known, ends, sorter=order)].astype(np.int64)


def _deal(graph: LargeGraph, owner: Array, files: Sequence[Path]) -> None:
    """Put the number of each link into the file of the part that it leads to."""
    for file in files:
        file.touch()
    for some, _, target in graph.pieces():
        part = owner[target]
        order = np.argsort(part, kind="stable")
        ends = np.cumsum(np.bincount(part, minlength=len(files)))
        for file, chosen in zip(files, np.split(order, ends[:-1]), strict=True):
            with file.open("ab") as stream:
                (some.start + chosen).astype(np.int64).tofile(stream)


def _coins(graph: LargeGraph, scratch: Path) -> Array | None:  # -> [links]
    """Number of the coin of each link, as :func:`~varigraph.moments.links.coins_of` counts them.

    They are counted by the lower end of their links first: links are dealt by that, and what is
    dealt together is counted behind what came before.
    """
    if "edge_prob" not in graph.of_links:
        return None
    heaps = -(-max(1, graph.links) // COINS_AT_ONCE)
    files = [scratch / f"coins-{heap}" for heap in range(heaps)]
    lower: Any = _LowerEnds(graph.source, graph.target)
    heap_of = np.arange(graph.nodes, dtype=np.int64) * heaps // graph.nodes
    _deal(LargeGraph(graph.source, lower, graph.of_nodes, {}, {}), heap_of, files)
    shape = (graph.links,)
    coins = np.lib.format.open_memmap(scratch / "coin.npy", mode="w+", dtype=np.int64, shape=shape)
    counted = 0
    for file in files:
        links = np.fromfile(file, dtype=np.int64)
        ends = np.stack([graph.source[links], graph.target[links]]).astype(np.int64)
        chances = torch.from_numpy(np.array(graph.of_links["edge_prob"][links]))
        found = coins_of(torch.from_numpy(ends), chances, graph.nodes)
        coins[links] = counted + found.of_edge.numpy()
        counted += len(found.prob)
        file.unlink()
    return coins


class _LowerEnds:
    """The lower end of each link, computed for those that are asked for."""

    def __init__(self, source: Array, target: Array) -> None:
        self._ends = source, target

    def __getitem__(self, some: slice) -> Array:
        return np.minimum(*(ends[some] for ends in self._ends))


def _write_sent(folder: Path, parts: int) -> None:
    """Which of its rows a part sends to each other one, in the order in which they wait there."""
    wanted = []
    for part in range(parts):
        into = folder_of(folder, part)
        counts, far = (np.load(into / f"{name}.npy") for name in ("far_counts", "far"))
        wanted.append(np.split(far, np.cumsum(counts)[:-1]))
    for part in range(parts):
        into = folder_of(folder, part)
        own = np.load(into / "own.npy")
        rows = [np.searchsorted(own, each[part]) for each in wanted]
        save(into, "sent", np.concatenate(rows).astype(np.int64))
        save(into, "sent_counts", np.array([len(each) for each in rows]))
        record_of_files(into, part)
