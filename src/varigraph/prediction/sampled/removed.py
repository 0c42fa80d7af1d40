"""Runs on the graph without some of its links: the network itself, on what is left."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, cast

import numpy as np
import torch
from torch import Tensor
from torch_geometric import EdgeIndex
from torch_geometric.data import Data
from torch_geometric.data.storage import EdgeStorage
from torch_geometric.utils import (
    is_torch_sparse_tensor,
    select,
    to_edge_index,
    to_torch_coo_tensor,
    to_torch_csc_tensor,
    to_torch_csr_tensor,
)

from varigraph.data.kinds import StackedGraph
from varigraph.errors import ModelError
from varigraph.moments import LinkProbabilities
from varigraph.options import place_of
from varigraph.prediction.masks import Site
from varigraph.prediction.network_call import plain_answer
from varigraph.prediction.question import Question
from varigraph.prediction.sampled.tosses import TossedLinks
from varigraph.sparse import without_notices

#: What is about graphs or nodes, or is asked about, however many entries it happens to have.
NO_LINKS = ("batch", "ptr", "edge_label")
#: Adjacency matrices, by their names in torch_geometric.
MATRIX = ("adj", "adj_t")
MATRICES: dict[torch.layout, Callable[..., Tensor]] = {
    torch.sparse_coo: to_torch_coo_tensor,
    torch.sparse_csr: to_torch_csr_tensor,
    torch.sparse_csc: to_torch_csc_tensor,
}


class RemovedLinks(TossedLinks):
    """The graph of the running pass: that of the question without the links that are absent.

    Nothing of the network is changed: degrees, neighbour counts, attention and maxima are those of
    the graph that it is given.

    Args:
        links: the links and their chances.
        graph: that they belong to.

    Attributes:
        met: whether a run has looked at links by now: its graph is there from the start.
        sites: where dropout acts on the graph with all links, once that is known.
        absent: number of links that the running pass lacks.
    """

    met = True

    def __init__(self, links: LinkProbabilities, graph: Data) -> None:
        self._links, self._graph = links, graph
        self._shape: torch.Size | None = None
        self.absent, self.sites = 0, cast(Sequence[Site], ())
        self.given: tuple[Data, ...] = ()
        self._present: Tensor | None = None

    @property
    def bytes(self) -> int:
        """Memory of a graph without some of its links."""
        return sum(tensor.nbytes for tensor in _link_tensors(self._graph))

    @property
    def tensors(self) -> list[Tensor]:
        """What the graph of the running pass says about links."""
        return _link_tensors(self.given[0] if self.given else self._graph)

    @property
    def without_doubt(self) -> Tensor:  # [edges]
        """The draw in which every link that may be absent is absent."""
        prob = self._links.listed[1]
        return (prob == 1).to(prob)

    def show(self, present: Tensor | None) -> None:  # [edges]
        """Begin a pass on these links; None for all of them."""
        if present is not None and present is self._present:
            return
        self._present = present
        self.absent = 0 if present is None else int((present == 0).sum())
        if present is None or self.absent == 0:
            self.given = ()
        else:
            self.given = (without_links(self._graph, present != 0, self._links),)

    def left_of(self, name: str, value: Tensor) -> Tensor:
        """Another value of a field of the graph, as the running pass has it."""
        if self._present is None or not self.given or not per_link(self._graph, name, value):
            return value
        left: Tensor = value[self._present != 0]
        return left

    @contextmanager
    def blamed(self, question: Question) -> Iterator[None]:
        """What a network complains about here is said to be about a graph without links."""
        try:
            yield
        except ModelError:
            raise
        except Exception as error:
            if self.absent == 0:
                raise
            plain_answer(question.model, question.run, question.x.mean)  # or it fails on any
            name = type(question.model).__name__
            raise ModelError(
                f"{name} fails on the graph without {self.absent} of its links: {place_of(error)}",
                'let it take any links, none included; or links="bernoulli", which silences '
                "messages and removes no link",
            ) from error

    def among_all(self, shape: torch.Size, place: int) -> tuple[torch.Size, Tensor] | None:
        """What has a row for each link that is left: its shape with all links, and those rows.

        Loops that a layer adds come behind; it may drop those of the graph first. None for what
        has other rows.

        Args:
            shape: of a value that meets dropout in the running pass.
            place: number of that dropout.
        """
        if self.absent == 0 or self._present is None or place >= len(self.sites):
            return None
        whole = self.sites[place].shape
        for present in self._lists(self._present != 0):
            links, left = len(present), present.nonzero().ravel()
            if whole[0] > shape[0] and whole[0] - links == shape[0] - len(left) >= 0:
                behind = torch.arange(links, whole[0], device=left.device)
                return torch.Size([whole[0], *shape[1:]]), torch.cat([left, behind])
        return None

    def _lists(self, present: Tensor) -> Iterator[Tensor]:  # [edges] bool
        """What layers may list: all links of a kind; without those from a node to itself."""
        source, target = self._links.listed[0]
        kinds = self._graph.relations if isinstance(self._graph, StackedGraph) else None
        sizes = [len(present)] if kinds is None else list(kinds.values())
        yield from present.split(sizes)
        for some, other in zip(present.split(sizes), (source != target).split(sizes), strict=True):
            yield some[other]

    def check_form(self, answer: Tensor) -> None:  # [nodes, classes]
        """Raises if the answer has another form than on other graphs."""
        shape = self._shape = self._shape or answer.shape
        if answer.shape != shape:
            raise ModelError(
                f"the answer has shape {tuple(answer.shape)} on the graph without {self.absent} of "
                f"its links, and {tuple(shape)} with all: it is about the links that there are",
                "answer for pairs of nodes that stay: keep them in data.edge_label_index",
            )


def without_links(graph: Data, present: Tensor, links: LinkProbabilities) -> Data:  # [edges] bool
    """The graph with fewer links: whatever has an entry for each of them has fewer as well.

    Args:
        graph: which stays as it is.
        present: whether each column of ``edge_index`` stays.
        links: of this graph, for adjacency matrices, whose entries are found by their ends.

    Raises:
        ModelError: a matrix has links that ``edge_index`` lacks.
    """
    if isinstance(graph, StackedGraph):
        return _without_links_of_kinds(graph, present)
    fewer = copy.copy(graph)
    boundaries = dict(getattr(graph, "_slice_dict", None) or {})  # of the graphs in a batch
    before = torch.cat([present.new_zeros(1, dtype=torch.long), present.cumsum(0)])
    for name, value in graph:
        if name in MATRIX and isinstance(value, Tensor) and is_torch_sparse_tensor(value):
            fewer[name] = _without_entries(value, present, links, transposed=name == "adj_t")
        elif per_link(graph, name, value):
            fewer[name] = _picked(value, present, graph.__cat_dim__(name, value))
            if name in boundaries:
                boundaries[name] = before.cpu()[torch.as_tensor(boundaries[name])]
    if boundaries:
        fewer._slice_dict = boundaries
    return fewer


def _without_links_of_kinds(graph: StackedGraph, present: Tensor) -> StackedGraph:  # [edges] bool
    fewer, whole = copy.copy(graph), copy.copy(graph.whole)
    whole.__dict__.pop("_slice_dict", None)  # of the graphs in a batch, which these are not
    parts = present.split(list(graph.relations.values()))
    for relation, some in zip(graph.relations, parts, strict=True):
        store = graph.whole[relation]
        for name, value in () if bool(some.all()) else store.items():
            if _of_relation(store, name, value):
                axis = graph.whole.__cat_dim__(name, value, store)
                whole[relation][name] = _picked(value, some, axis)
    fewer.__dict__["whole"] = whole
    return fewer


def _of_relation(store: EdgeStorage, name: str, value: Any) -> bool:
    """Whether something has one entry for every link of a kind."""
    if isinstance(value, (Tensor, np.ndarray)):
        axis = -1 if "index" in name else 0
        count = value.shape[axis] if value.ndim > 0 else -1
    else:
        count = len(value) if isinstance(value, (list, tuple)) else -1
    return count == store.edge_index.size(1) and not name.startswith(NO_LINKS)


def _link_tensors(graph: Data) -> list[Tensor]:
    if isinstance(graph, StackedGraph):
        stores = [graph.whole[relation] for relation in graph.relations]
        of_kinds = [(store, name, value) for store in stores for name, value in store.items()]
        return [each[2] for each in of_kinds if isinstance(each[2], Tensor) and _of_relation(*each)]
    tensors = [(name, value) for name, value in graph if isinstance(value, Tensor)]
    return [each for name, each in tensors if name in MATRIX or per_link(graph, name, each)]


def per_link(graph: Data, name: str, value: Any) -> bool:
    """Whether something has one entry for every link, as torch_geometric tells by its size."""
    if name.startswith(NO_LINKS):
        return False
    if isinstance(value, (Tensor, np.ndarray)):
        axis = graph.__cat_dim__(name, value)
        count = value.shape[axis] if isinstance(axis, int) and value.ndim > 0 else -1
    else:
        count = len(value) if isinstance(value, (list, tuple)) else -1
    if count != graph.num_edges:
        return False
    return "edge" in name or count not in (graph.num_nodes, getattr(graph, "num_graphs", None))


def _picked(value: Any, present: Tensor, axis: int) -> Any:
    if isinstance(value, np.ndarray):
        return np.compress(present.cpu().numpy(), value, axis)
    if isinstance(value, EdgeIndex):
        return value[:, present]  # which stays sorted, as select does not know
    return select(value, present, axis if isinstance(value, Tensor) else 0)


def _without_entries(
    matrix: Tensor, present: Tensor, links: LinkProbabilities, *, transposed: bool
) -> Tensor:  # [nodes, nodes] -> [nodes, nodes]
    (row, column), values = to_edge_index(matrix)
    ends = torch.stack([column, row] if transposed else [row, column])
    stays = links.drawn(present.to(links.listed[1])).of(ends) != 0
    with without_notices():
        kept = torch.stack([row, column])[:, stays]
        return MATRICES[matrix.layout](kept, values[stays], size=tuple(matrix.shape))
