"""Scorers of pairs: by name, what each has to offer, and scores that need no training.

What nodes hear from their neighbours, with some links kept silent.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from typing import Literal, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.sparse import csr_array
from torch import Tensor

from varigraph.sparse import Sparse

Method = Literal["auto", "seal", "hadamard"]
#: Links up to which ``auto`` means ``seal``.
LARGE = 20_000
#: Called with the fraction of the work that is done, from 0 to 1.
Report = Callable[[float], None]


@dataclass(frozen=True)
class Recipe:
    """A scorer that is imported when it is asked for.

    Args:
        module: where its class is.
        name: what the class is called.
        contrast: non-links that it learns from for each link.
    """

    module: str
    name: str
    contrast: int

    def scorer(self, links: Tensor, *, nodes: int, x: Tensor | None, seed: int) -> Scorer:
        """A new scorer that may see these links, ``[2, links]``."""
        kind = getattr(import_module(self.module), self.name)
        made: Scorer = kind(links, nodes=nodes, x=x, seed=seed)
        return made


RECIPES = {
    "hadamard": Recipe("varigraph.links.hadamard", "Hadamard", contrast=5),
    "seal": Recipe("varigraph.links.seal", "Seal", contrast=1),
}


def chosen(method: Method, *, links: int) -> str:
    """The scorer that is meant: ``auto`` is the fast one where the graph is large."""
    if method != "auto":
        return method
    return "hadamard" if links > LARGE else "seal"


class Scorer(Protocol):
    """Learns from some pairs of nodes whether they are links, then judges others.

    Made as ``Method(links, nodes=..., x=..., seed=...)``: ``links`` ``[2, links]`` are those that
    may be seen as structure, each once and in any orientation; ``nodes`` is how many nodes there
    are; ``x`` are their features ``[nodes, features]``, or None.
    """

    def fit(
        self,
        pairs: Tensor,  # [2, examples]
        real: Tensor,  # [examples] bool
        held: Tensor,  # [2, held]
        held_real: Tensor,  # [held] bool
        report: Report,
    ) -> None:
        """Learns which pairs are real.

        Args:
            pairs: examples to learn from. The real ones are among the links of the structure and
                must not be seen there while they are learnt from.
            real: which of them are links.
            held: pairs that are not in the structure, to tell when to stop.
            held_real: which of those are links.
            report: called now and then.
        """

    def logits(self, pairs: Tensor) -> Tensor:  # [2, pairs] -> [pairs]
        """Log odds that each pair is a link, the same for both orders of its ends.

        A pair's own link never influences its score.
        """


def common_neighbours(
    pairs: Tensor,  # [2, pairs]
    links: Tensor,  # [2, links]
    *,
    nodes: int,
) -> Tensor:  # -> [pairs]
    r"""How many neighbours the two ends share.

    .. math:: |N(u) \cap N(v)|

    Args:
        pairs: the pairs to score.
        links: the links of the graph, each once, without self links.
        nodes: how many nodes there are.

    Example:
        >>> square = torch.tensor([[0, 1, 2, 3], [1, 2, 3, 0]])
        >>> common_neighbours(torch.tensor([[0, 0], [2, 1]]), square, nodes=4).tolist()
        [2.0, 0.0]
    """
    return _shared(pairs, _adjacency(links, nodes), np.ones(nodes))


def adamic_adar(
    pairs: Tensor,  # [2, pairs]
    links: Tensor,  # [2, links]
    *,
    nodes: int,
) -> Tensor:  # -> [pairs]
    r"""Shared neighbours, of which those with few links count more.

    .. math:: \sum_{w \in N(u) \cap N(v)} \frac{1}{\log |N(w)|}

    Args:
        pairs: the pairs to score.
        links: the links of the graph, each once, without self links.
        nodes: how many nodes there are.

    Example:
        >>> square = torch.tensor([[0, 1, 2, 3], [1, 2, 3, 0]])
        >>> adamic_adar(torch.tensor([[0], [2]]), square, nodes=4)
        tensor([2.8854], dtype=torch.float64)
    """
    adjacency = _adjacency(links, nodes)
    degree = np.diff(adjacency.indptr)
    # Whoever is shared by two nodes has two neighbours at least, so lower degrees never count.
    return _shared(pairs, adjacency, 1 / np.log(np.maximum(degree, 2)))


def _adjacency(links: Tensor, nodes: int) -> csr_array:
    ends = links.cpu().numpy()
    rows, columns = np.concatenate([ends, ends[::-1]], axis=1)
    return csr_array((np.ones(len(rows)), (rows, columns)), shape=(nodes, nodes))


def _shared(pairs: Tensor, adjacency: csr_array, weight: NDArray[np.float64]) -> Tensor:
    one, two = pairs.cpu().numpy()
    both = adjacency[one].multiply(adjacency[two])  # [pairs, nodes]
    return torch.from_numpy(both @ weight).to(pairs.device)


class Messages:
    """The links over which messages may travel.

    Args:
        links: each link once, no self links, ``[2, links]``.
        nodes: how many nodes there are.
    """

    def __init__(self, links: Tensor, *, nodes: int) -> None:
        both = torch.cat([links, links.flip(0)], dim=1)
        order = (both[0] * nodes + both[1]).argsort()
        self._rows, self._columns = both[:, order]
        self._link = order % max(links.size(1), 1)
        self._nodes = nodes

    def all(self) -> NeighbourMeans:
        """Every link is heard."""
        return self._neighbours(self._rows, self._columns)

    def without(self, silent: Tensor) -> NeighbourMeans:  # [links] bool
        """Those links are heard that are not silent."""
        heard = ~silent[self._link]
        return self._neighbours(self._rows[heard], self._columns[heard])

    def _neighbours(self, rows: Tensor, columns: Tensor) -> NeighbourMeans:
        degree = torch.bincount(rows, minlength=self._nodes)
        ones = torch.ones(len(columns), device=rows.device)
        matrix = Sparse(rows, columns, ones, (self._nodes, self._nodes), symmetric=True)
        return NeighbourMeans(matrix, degree.float()[:, None])


@dataclass(frozen=True, eq=False)
class NeighbourMeans:
    """Who hears whom.

    Args:
        matrix: 1 for each pair of neighbours, symmetric, ``[nodes, nodes]``.
        degree: how many neighbours each node has, ``[nodes, 1]``.
    """

    matrix: Sparse
    degree: Tensor

    def mean(self, x: Tensor) -> Tensor:  # [nodes, features] -> [nodes, features]
        """Mean of the neighbours' features, 0 for a node that has none."""
        return (self.matrix @ x) / self.degree.clamp_min(1)
