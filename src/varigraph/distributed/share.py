"""What one process works on: one part of a graph or several, put together to one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from torch import Tensor
from torch_geometric.data import Data

from varigraph.distributed.large_graph import Array
from varigraph.distributed.parts import Numbers, Part, Partition
from varigraph.errors import OptionError
from varigraph.prediction.numbering import Numbering

#: Rows that stand for no node, at least, with a link from the first to the second.
FILLING = 2


def parts_of(rank: int, processes: int, parts: int) -> range:
    """The parts that a process works on: as many as every other, or one more."""
    return range(rank * parts // processes, (rank + 1) * parts // processes)


def check_enough(whole: Partition, processes: int) -> None:
    """Raises where there is not a part for every process."""
    if processes > whole.parts:
        raise OptionError(
            f"{processes} processes are too many for {whole.parts} parts",
            f"--nproc-per-node {whole.parts}, or varigraph partition with --parts {processes}",
        )


@dataclass(frozen=True, eq=False)
class Share:
    """Some parts as one: own nodes in the order of their numbers, then those of other processes.

    The latter are sorted by their processes. Behind them stand rows for no node, with a link of
    their own, which are uncertain wherever anything of the whole graph is: so that all processes
    take the same steps, and rows and links differ in number.

    Args:
        whole: the graph in parts.
        rank: number of this process.
        processes: how many there are.
    """

    whole: Partition
    rank: int
    processes: int

    @property
    def numbers(self) -> range:
        """Which parts these are."""
        return parts_of(self.rank, self.processes, self.whole.parts)

    @cached_property
    def parts(self) -> list[Part]:
        """The parts themselves.

        Raises:
            FileError: one is missing, damaged, or a part of another graph.
        """
        return [self.whole.open(number) for number in self.numbers]

    @cached_property
    def own(self) -> Numbers:  # [own]
        """Numbers of own nodes in the whole graph."""
        return np.sort(np.concatenate([part.own for part in self.parts]))

    @cached_property
    def _process_of(self) -> Numbers:  # [parts]
        """Which process each part belongs to."""
        shares = [parts_of(r, self.processes, self.whole.parts) for r in range(self.processes)]
        return np.repeat(np.arange(self.processes), [len(each) for each in shares])

    @cached_property
    def _far(self) -> tuple[Numbers, Numbers]:
        """Nodes of other processes that links start at, and whose they are."""
        nodes = np.concatenate([part.far for part in self.parts])
        counts = [np.asarray(part.far_counts) for part in self.parts]
        owner = np.concatenate([np.repeat(self._process_of, each) for each in counts])
        nodes, first = np.unique(nodes, return_index=True)
        owner = owner[first]
        order = np.argsort(owner, kind="stable")
        elsewhere = owner[order] != self.rank
        return nodes[order][elsewhere], owner[order][elsewhere]

    @property
    def far(self) -> Numbers:  # [far]
        """Numbers of the nodes of other processes, in the order in which their rows arrive."""
        return self._far[0]

    @cached_property
    def far_counts(self) -> list[int]:
        """How many rows come from each process."""
        counts: list[int] = np.bincount(self._far[1], minlength=self.processes).tolist()
        return counts

    @cached_property
    def _sent(self) -> list[Numbers]:
        """Numbers of the own nodes whose rows each process asks for."""
        wanted: list[list[Numbers]] = [[] for _ in range(self.processes)]
        for part in self.parts:
            rows = np.split(part.sent.numpy(), np.cumsum(part.sent_counts)[:-1])
            for process, some in zip(self._process_of, rows, strict=True):
                wanted[process].append(part.own[some])
        wanted[self.rank] = [self.own[:0]]
        return [np.unique(np.concatenate(each)) for each in wanted]

    @cached_property
    def sent(self) -> Tensor:  # [sent]
        """Own rows that others ask for, those of the first process first."""
        return torch.from_numpy(np.searchsorted(self.own, np.concatenate(self._sent)))

    @property
    def sent_counts(self) -> list[int]:
        """How many rows each process asks for."""
        return [len(each) for each in self._sent]

    @cached_property
    def _order(self) -> Numbers:  # [links]
        """The links of the parts, one part after the other, in the order of the whole graph."""
        return np.argsort(np.concatenate([part.links for part in self.parts]), kind="stable")

    def _of_links(self, each: Sequence[Array]) -> Array:  # [links of a part, ...] -> [links, ...]
        found: Array = np.concatenate(each)[self._order]
        return found

    @cached_property
    def _ends(self) -> Numbers:  # [2, links]
        """Rows that links lead between."""
        known = np.concatenate([self.own, self.far])
        order = np.argsort(known, kind="stable")
        ends = [np.concatenate([part.own, part.far])[part.edge_index] for part in self.parts]
        ends_of_all = np.concatenate(ends, axis=1)[:, self._order]
        return order[np.searchsorted(known, ends_of_all, sorter=order)].astype(np.int64)

    @cached_property
    def rows(self) -> int:
        """Number of rows: own, others', and those that stand for no node."""
        links, filled = self._ends.shape[1] + 1, len(self.own) + len(self.far) + FILLING
        between = int((self._ends[0] != self._ends[1]).sum()) + 1
        while filled in (links, between, links - between):
            filled += 1
        return filled

    @property
    def known(self) -> int:
        """Number of rows that stand for a node."""
        return len(self.own) + len(self.far)

    @cached_property
    def numbering(self) -> Numbering:
        """Which nodes, links and coins of the whole graph these are; numbers beyond for filling."""
        whole = self.whole
        beyond = np.array([whole.links])
        links = self._of_links([part.links for part in self.parts])
        before = self._of_links([part.loops_before for part in self.parts])
        apart = self._ends[0] != self._ends[1]
        coins = [part.coins for part in self.parts if part.coins is not None]
        return Numbering(
            nodes=np.concatenate([self.own, self.far, whole.nodes + np.arange(self._filling)]),
            links=np.concatenate([links, beyond]),
            all_links=whole.links,
            between=np.concatenate([(links - before)[apart], beyond]),
            all_between=whole.links - whole.loops,
            coins=np.concatenate([self._of_links(coins), beyond]) if coins else None,
        )

    @property
    def _filling(self) -> int:
        return self.rows - self.known

    def data(self) -> Data:
        """The share as a graph of its own."""
        ends = np.concatenate([self._ends, [[self.known], [self.known + 1]]], axis=1)
        found = Data(edge_index=torch.from_numpy(ends), num_nodes=self.rows)
        for name, of_all in self.parts[0].of_whole():
            found[name] = of_all
        for name, value in self._node_fields():
            found[name] = torch.from_numpy(value)
        for name in self.parts[0].link_fields:
            values = self._of_links([part.link_field(name) for part in self.parts])
            doubt = 0.5 if self.whole.uncertain_links else 1
            found[name] = torch.from_numpy(_longer(values, 1, doubt if name == "edge_prob" else 0))
        return found

    def _node_fields(self) -> Iterator[tuple[str, Array]]:
        places = np.concatenate([self.own, self.far])
        order = np.argsort(places, kind="stable")
        for name in self.parts[0].node_fields:
            first = self.parts[0].node_field(name)
            found = np.empty((len(places), *first.shape[1:]), dtype=first.dtype)
            for part in self.parts:
                known = np.concatenate([part.own, part.far])
                rows = order[np.searchsorted(places, known, sorter=order)]
                found[rows] = part.node_field(name)
            noise = 1 if name == "x_var" and self.whole.noisy else 0
            yield name, _longer(found, self._filling, noise)


def _longer(values: Array, count: int, value: float) -> Array:
    """The same with so many more rows, all of this value."""
    more = np.full((count, *values.shape[1:]), value, dtype=values.dtype)
    return np.concatenate([values, more])
