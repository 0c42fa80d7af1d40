"""Closed forms on a graph in parts: for some nodes at a time, on all that walks from them reach.

What a node answers depends on the nodes that are as many steps away as the network has. These, with
all the links that lead to them, are read from the parts once, whosever they are; there the method
runs as it is. Degrees are those of the whole graph, for no node that counts lacks a link.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch_geometric.data import Data

from varigraph.choices import Method
from varigraph.distributed.large_graph import Array
from varigraph.distributed.network import Reach, first_reached
from varigraph.distributed.parts import Numbers, Part, Partition
from varigraph.distributed.unfinished import Unfinished
from varigraph.errors import ModelError, TooLargeError
from varigraph.moments import Gaussian
from varigraph.prediction.calling import Forward, caller
from varigraph.prediction.memory import as_bytes
from varigraph.prediction.predict import predict
from varigraph.prediction.prediction import Prediction

#: Steps that no network takes.
MOST_STEPS = 64
#: Features, their noise and links of what walks reach may take this part of the memory.
SHARE_OF_MEMORY = 4


@dataclass(frozen=True, eq=False)
class Reached:
    """Nodes that walks reach, the first asked for, with the links that lead to all but the last.

    Args:
        nodes: their numbers, ``[nodes]``.
        reach: how much is known of them.
        links: places of links in each part, ``[links of part]`` each.
    """

    nodes: Numbers
    reach: Reach
    links: Mapping[int, Numbers]


@dataclass(eq=False)
class Walks:
    """Asks a closed form for some nodes of a graph in parts.

    Args:
        whole: the graph.
        model: the network.
        method: a closed form.
        forward: how the network is called.
        options: those of :func:`varigraph.predict`.
    """

    whole: Partition
    model: nn.Module
    method: Method
    forward: Forward | None
    options: Mapping[str, Any]
    _steps: int = field(default=1, init=False)

    @cached_property
    def parts(self) -> list[Part]:
        """All parts: those of others are read too."""
        return [self.whole.open(number) for number in range(self.whole.parts)]

    def answer(self, nodes: Numbers) -> Prediction:  # [nodes]
        """The answer for some nodes, by their numbers in the whole graph.

        Raises:
            TooLargeError: what walks from them reach does not fit in the memory.
            ModelError: the network looks at all nodes.
        """
        data = self._sufficient(nodes)
        options = {**self.options, "progress": None}
        asked = torch.arange(len(nodes))
        return predict(self.model, data, method=self.method, nodes=asked, forward=self.forward,
                       **options)  # fmt: skip

    def _sufficient(self, nodes: Numbers) -> Data:
        """The least graph in which answers for these nodes are those in the whole.

        How many steps the network takes is tried out: nodes are known well enough as soon as
        numbers that are missing beyond them reach no answer.
        """
        for steps in range(self._steps, MOST_STEPS):
            found = self.reached(nodes, steps)
            data = self.graph(found)
            run = caller(self.model, data, self.forward)
            layer = first_reached(self.model, run, data, found.reach)
            if layer is None:
                self._steps = steps
                return data
            if found.reach.known == found.reach.complete:  # there is nothing beyond
                break
        raise ModelError(
            f"{layer} looks at all nodes, or at links that lead from a node",
            "predict without parts: vg.predict(model, data)",
        )

    def reached(self, nodes: Numbers, steps: int) -> Reached:
        """What walks of so many steps from some nodes reach, and one step more.

        The nodes of the last step are there for the links that lead from them, which count in the
        degrees of others.
        """
        listed, links, new = [nodes], list[dict[int, Numbers]](), nodes
        complete = 0
        for _ in range(steps + 1):
            complete += len(new)
            links.append(dict(self._leading_to(new)))
            sources = [self._known(part)[self.parts[part].edge_index[0][some]]
                       for part, some in links[-1].items()]  # fmt: skip
            new = np.setdiff1d(np.concatenate([nodes[:0], *sources]), np.concatenate(listed))
            listed.append(new)
        every = np.concatenate(listed)
        self._check_fits(len(every))
        met = sorted({part for some in links for part in some})
        of_part = {part: np.concatenate([some[part] for some in links if part in some])
                   for part in met}  # fmt: skip
        reach = Reach(len(nodes), complete, len(every), complete, len(every))
        return Reached(every, reach, of_part)

    def _check_fits(self, rows: int) -> None:
        features = self.parts[0].node_field("x")
        need = 2 * rows * features[:1].nbytes
        memory = as_bytes(self.options["memory"])
        if SHARE_OF_MEMORY * need > memory:
            raise TooLargeError(
                f"walks reach {rows:,} nodes, whose features need {need / 2**20:,.0f} MiB",
                f'memory="{SHARE_OF_MEMORY * need // 2**20 + 1}MiB"',
            )

    def _known(self, part: int) -> Numbers:
        found: Numbers = self._numbers[part]
        return found

    @cached_property
    def _numbers(self) -> list[Numbers]:
        return [np.concatenate([part.own, part.far]) for part in self.parts]

    def _owned(self, nodes: Numbers) -> Iterator[tuple[int, Numbers, Numbers]]:
        """Part by part: which of some nodes are its own, and where it has them."""
        for number, part in enumerate(self.parts):
            place = np.minimum(np.searchsorted(part.own, nodes), len(part.own) - 1)
            which = np.flatnonzero(part.own[place] == nodes)
            if len(which):
                yield number, which, place[which]

    def _leading_to(self, nodes: Numbers) -> Iterator[tuple[int, Numbers]]:
        """Part by part, places of the links that lead to some nodes."""
        for part, _, rows in self._owned(nodes):
            yield part, self.parts[part].leading_to(rows)

    def graph(self, found: Reached) -> Data:
        """Nodes that are reached and their links, as a graph of its own."""
        nodes, links = found.nodes, found.links
        numbers = [self.parts[part].links[some] for part, some in links.items()]
        order = np.argsort(np.concatenate([nodes[:0], *numbers]), kind="stable")
        by_number = np.argsort(nodes, kind="stable")
        ends = [self._known(part)[self.parts[part].edge_index[:, some]]
                for part, some in links.items()]  # fmt: skip
        ends_of_all = np.concatenate([np.empty((2, 0), np.int64), *ends], axis=1)[:, order]
        index = by_number[np.searchsorted(nodes, ends_of_all, sorter=by_number)]
        data = Data(edge_index=torch.from_numpy(index), num_nodes=len(nodes))
        for name, of_all in self.parts[0].of_whole():
            data[name] = of_all
        for name in self.parts[0].node_fields:
            data[name] = self._of_nodes(name, nodes)
        for name in self.parts[0].link_fields:
            first = self.parts[0].link_field(name)[:0]
            values = [self.parts[part].link_field(name)[some] for part, some in links.items()]
            data[name] = torch.from_numpy(np.concatenate([first, *values])[order])
        return data

    def _of_nodes(self, name: str, nodes: Numbers) -> Tensor:  # -> [nodes, ...]
        first: Array = self.parts[0].node_field(name)
        found = np.empty((len(nodes), *first.shape[1:]), dtype=first.dtype)
        for part, which, rows in self._owned(nodes):
            found[which] = self.parts[part].node_field(name)[rows]
        return torch.from_numpy(found)


def answer_of(walks: Walks, part: int, unfinished: Unfinished) -> Prediction:
    """The answer for the own nodes of a part, piece by piece; pieces that are done are read."""
    own = np.asarray(walks.parts[part].own)
    pieces = list(_pieces(walks, part, unfinished, 0, len(own)))
    return _joined(pieces)


def _pieces(
    walks: Walks, part: int, unfinished: Unfinished, first: int, last: int
) -> Iterator[Prediction]:
    """Answers for the nodes from one to another; for half of them, if all are too many."""
    name = f"nodes-{first:010d}-{last:010d}"
    if unfinished.has(part, name):
        yield _read(unfinished.load(part, name), walks)
        return
    try:
        found = walks.answer(np.asarray(walks.parts[part].own[first:last]))
    except TooLargeError:
        if last - first == 1:
            raise
        middle = (first + last) // 2
        yield from _pieces(walks, part, unfinished, first, middle)
        yield from _pieces(walks, part, unfinished, middle, last)
        return
    unfinished.save(part, name, _tensors(found))
    yield found


SHARES = "share "


def _tensors(answer: Prediction) -> dict[str, Tensor]:
    assert answer.plain is not None  # nodes are answered for, from one run of the network
    shares = {SHARES + name: var for name, var in answer.by_source.items()}
    return {"mean": answer.mean, "logits mean": answer.logits.mean,
            "logits var": answer.logits.var, "plain": answer.plain, **shares}  # fmt: skip


def _read(tensors: Mapping[str, Tensor], walks: Walks) -> Prediction:
    return Prediction(
        mean=tensors["mean"],
        by_source={name.removeprefix(SHARES): value for name, value in tensors.items()
                   if name.startswith(SHARES)},
        logits=Gaussian(tensors["logits mean"], tensors["logits var"]),
        method=walks.method,
        samples=walks.options["samples"],
        task=walks.options["task"] or "classification",
        plain=tensors["plain"],
    )  # fmt: skip


def _joined(pieces: list[Prediction]) -> Prediction:
    listed = [_tensors(piece) for piece in pieces]
    whole = {name: torch.cat([each[name] for each in listed]) for name in listed[0]}
    first = pieces[0]
    return replace(
        first,
        mean=whole["mean"],
        by_source={name: whole[SHARES + name] for name in first.by_source},
        logits=Gaussian(whole["logits mean"], whole["logits var"]),
        plain=whole["plain"],
    )
