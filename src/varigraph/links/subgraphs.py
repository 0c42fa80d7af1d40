"""What surrounds a pair of nodes: the small subgraph from which its link is judged."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from scipy.sparse import csr_array
from torch import Tensor

from varigraph.errors import GraphError, OptionError

Integers = NDArray[np.int64]
Hashes = NDArray[np.uint64]

#: Entries of sparse matrices to hold at a time; a guess decides how many pairs that is.
ENTRIES = 4_000_000
#: Bits of a hash that are compared. The other 20 of 64 hold the row, and chunks are far smaller.
BITS = 44
#: Rows compared at a time; few enough for the processor's cache.
ROWS = 1024
#: Distance of a node that no path leads to.
UNREACHABLE = -1


@dataclass(frozen=True, eq=False)
class Subgraphs:
    """Many subgraphs side by side, their nodes numbered through.

    Args:
        nodes: number that each node has in the graph, ``[nodes]``.
        labels: its double-radius label, ``[nodes]``.
        alike: how alike it is to the two ends, the smaller number first, ``[nodes, 2]``; without
            attributes ``[nodes, 0]``.
        edge_index: links in both directions, sorted by their targets, ``[2, edges]``.
        ends: the two nodes in question, ``[2, subgraphs]``.
        sizes: nodes of each subgraph, ``[subgraphs]``.
        edges: columns of ``edge_index`` that each subgraph has, ``[subgraphs]``.
    """

    nodes: Tensor
    labels: Tensor
    alike: Tensor
    edge_index: Tensor
    ends: Tensor
    sizes: Tensor
    edges: Tensor

    def __len__(self) -> int:
        return len(self.sizes)

    def pick(self, chosen: Tensor) -> Subgraphs:  # [chosen]
        """Some of the subgraphs, in the order asked for."""
        sizes, edges = self.sizes[chosen], self.edges[chosen]
        first = _starts(self.sizes)[chosen]
        nodes = _ranges(first, sizes)
        columns = _ranges(_starts(self.edges)[chosen], edges)
        shift = _starts(sizes) - first  # from the old numbers of the nodes to the new ones
        return Subgraphs(
            nodes=self.nodes[nodes],
            labels=self.labels[nodes],
            alike=self.alike[nodes],
            edge_index=self.edge_index[:, columns] + shift.repeat_interleave(edges),
            ends=self.ends[:, chosen] + shift,
            sizes=sizes,
            edges=edges,
        )


class Surroundings:
    """Cuts the subgraph around a pair out of a graph, for many pairs at once.

    It holds the nodes within ``hops`` steps of either end and the links between them, but never
    the link of the pair itself. Where more than ``cap`` nodes are first met at one step, the
    ``cap`` with the smallest hash of (seed, pair, node) stay, and the search goes on from those
    alone: a pair has the same subgraph whichever others are asked about.

    Args:
        links: each link once, in any direction, ``[2, links]``.
        nodes: number of nodes.
        x: attributes of the nodes, ``[nodes, attributes]``.
        hops: steps from the ends.
        cap: nodes kept of each step; None keeps all.
        seed: of the choice.

    Example:
        >>> ring = torch.tensor([[0, 1, 2, 3, 4, 5], [1, 2, 3, 4, 5, 0]])
        >>> found = Surroundings(ring, nodes=6, hops=2).around(torch.tensor([[0], [2]]))
        >>> found.nodes, found.labels
        (tensor([0, 1, 2, 3, 4, 5]), tensor([1, 2, 1, 4, 5, 4]))
    """

    def __init__(
        self,
        links: Tensor,
        *,
        nodes: int,
        x: Tensor | None = None,
        hops: int = 2,
        cap: int | None = 100,
        seed: int = 0,
    ) -> None:
        if hops < 1 or (cap is not None and cap < 1):
            raise OptionError(f"hops={hops}, cap={cap}", "look around: hops=2, cap=100")
        _check_pairs("links", links, nodes=nodes)
        self.nodes, self.hops, self.seed = nodes, hops, seed
        self.cap = nodes if cap is None else cap
        self.likeness = None if x is None else Likeness(x)
        one, two = links.cpu().numpy()
        self.adjacency = _ones(np.append(one, two), np.append(two, one), (nodes, nodes))
        self.adjacency.data[:] = 1  # a link that is listed twice is one link
        self.chunk = self._chunk()

    def around(self, pairs: Tensor) -> Subgraphs:  # [2, pairs]
        """The subgraph of each pair; the order of its two ends makes no difference."""
        _check_pairs("pairs", pairs, nodes=self.nodes)
        ends = pairs.cpu().sort(dim=0).values
        return _side_by_side([self._cut(part.numpy()) for part in ends.split(self.chunk, dim=1)])

    def _chunk(self) -> int:
        """How many pairs to cut out at a time."""
        degree = np.diff(self.adjacency.indptr).astype(np.float64)
        met = (degree**2).sum() / max(degree.sum(), 1)  # mean degree of a node met along a link
        ball = 2 * sum(met**step for step in range(self.hops + 1))
        size = min(ball, 2 + self.hops * self.cap, self.nodes)
        return max(1, int(ENTRIES / (size * (size + met))))

    def _cut(self, ends: Integers) -> Subgraphs:  # [2, pairs]
        inside = self._inside(ends)
        nodes, sizes = inside.indices.astype(np.int64), np.diff(inside.indptr).astype(np.int64)
        owner = np.repeat(np.arange(len(sizes)), sizes)
        # A row for every node of every subgraph, with its neighbours that are in there as well.
        # The entries are their places, counted from 1 because a 0 would be no entry.
        inside.data = np.arange(1, len(nodes) + 1)
        linked = self.adjacency[nodes].multiply(inside[owner]).tocoo()
        source, target = linked.data - 1, linked.row.astype(np.int64)
        is_end = nodes == ends[:, owner]  # [2, nodes]
        own = is_end.any(axis=0)[source] & is_end.any(axis=0)[target]
        edge_index = torch.from_numpy(np.stack([source, target])[:, ~own])
        places = torch.from_numpy(np.stack([np.flatnonzero(row) for row in is_end]))
        edges = np.bincount(owner[target[~own]], minlength=len(sizes))
        return Subgraphs(
            nodes=torch.from_numpy(nodes),
            labels=drnl(edge_index, places, nodes=len(nodes)),
            alike=self._alike(torch.from_numpy(nodes), torch.from_numpy(ends[:, owner])),
            edge_index=edge_index,
            ends=places,
            sizes=torch.from_numpy(sizes),
            edges=torch.from_numpy(edges),
        )

    def _alike(self, nodes: Tensor, ends: Tensor) -> Tensor:  # [nodes], [2, nodes] -> [nodes, 2]
        if self.likeness is None:
            return torch.empty(len(nodes), 0)
        cosines = [self.likeness.between(nodes, end) for end in ends]
        return torch.stack(cosines, dim=1).sort(dim=1).values

    def _inside(self, ends: Integers) -> csr_array:  # [2, pairs] -> [pairs, nodes]
        """Ones where a node is in the subgraph of a pair."""
        pairs = np.arange(ends.shape[1])
        inside = met = ring = _ones(np.append(pairs, pairs), ends.ravel(), (len(pairs), self.nodes))
        for _ in range(self.hops):
            reached = (ring @ self.adjacency).sign()
            new = reached - reached.multiply(met)
            met = met + new  # also those that the cap leaves out: they do not come back
            ring = self._capped(new, ends)
            inside = inside + ring
        inside.sort_indices()
        return inside

    def _capped(self, ring: csr_array, ends: Integers) -> csr_array:  # [pairs, nodes], [2, pairs]
        """The same ring with at most ``cap`` nodes in a row."""
        ring.eliminate_zeros()
        ring.sort_indices()
        sizes = np.diff(ring.indptr)
        owner = np.repeat(np.arange(len(sizes)), sizes)
        crowded = np.flatnonzero((sizes > self.cap)[owner])
        if len(crowded) == 0:
            return ring
        row, node = owner[crowded], ring.indices[crowded]
        lot = _hash(np.array([self.seed % 2**63]), ends[0, row], ends[1, row], node)
        order = np.argsort(row.astype(np.uint64) << BITS | lot >> 64 - BITS, kind="stable")
        rank = np.arange(len(row)) - np.searchsorted(row, row)
        keep = np.ones(len(owner), dtype=bool)
        keep[crowded[order[rank >= self.cap]]] = False
        return _ones(owner[keep], ring.indices[keep], ring.shape)


def _ones(rows: Integers, columns: Integers, shape: tuple[int, int]) -> csr_array:
    return csr_array((np.ones(len(rows), dtype=np.int64), (rows, columns)), shape=shape)


def _hash(*parts: Integers) -> Hashes:
    """Well-mixed numbers that depend on all parts (the steps of SplitMix64)."""
    state = np.zeros(1, dtype=np.uint64)
    for part in parts:
        state = state + part.astype(np.uint64) + np.uint64(0x9E3779B97F4A7C15)
        state = (state ^ state >> 30) * np.uint64(0xBF58476D1CE4E5B9)
        state = (state ^ state >> 27) * np.uint64(0x94D049BB133111EB)
        state = state ^ state >> 31
    return state


def _starts(sizes: Tensor) -> Tensor:  # [parts] -> [parts]
    return sizes.cumsum(0) - sizes


def _ranges(first: Tensor, sizes: Tensor) -> Tensor:  # [parts], [parts] -> [sum of sizes]
    """The numbers ``first[i]``, ``first[i] + 1``, ... of each part, one part after the other."""
    return torch.arange(int(sizes.sum())) + (first - _starts(sizes)).repeat_interleave(sizes)


def _side_by_side(parts: list[Subgraphs]) -> Subgraphs:
    shift = _starts(torch.tensor([len(part.nodes) for part in parts])).tolist()
    moved = list(zip(parts, shift, strict=True))
    return Subgraphs(
        nodes=torch.cat([part.nodes for part in parts]),
        labels=torch.cat([part.labels for part in parts]),
        alike=torch.cat([part.alike for part in parts]),
        edge_index=torch.cat([part.edge_index + by for part, by in moved], dim=1),
        ends=torch.cat([part.ends + by for part, by in moved], dim=1),
        sizes=torch.cat([part.sizes for part in parts]),
        edges=torch.cat([part.edges for part in parts]),
    )


def _check_pairs(name: str, pairs: Tensor, *, nodes: int) -> None:  # [2, pairs]
    if pairs.dtype != torch.int64 or pairs.dim() != 2 or pairs.size(0) != 2:
        raise GraphError(
            f"{name} is {pairs.dtype} of shape {tuple(pairs.shape)}, not torch.int64 [2, {name}]",
            "give node numbers: one row for the one ends, one for the other",
        )
    bad = ((pairs < 0) | (pairs >= nodes)).any(dim=0) | (pairs[0] == pairs[1])
    if bad.any():
        place = int(bad.nonzero()[0])
        raise GraphError(
            f"{name}[:, {place}] is {tuple(pairs[:, place].tolist())}",
            f"give two different nodes out of 0 to {nodes - 1}",
        )


def drnl(edge_index: Tensor, ends: Tensor, *, nodes: int) -> Tensor:  # [2, e], [2, s] -> [nodes]
    r"""Label of every node of many subgraphs at once.

    With the distances :math:`d_x` (end :math:`y` taken away), :math:`d_y` (end :math:`x` taken
    away) and :math:`d = d_x + d_y`,

    .. math::
        f = 1 + \min(d_x, d_y) + \lfloor d/2 \rfloor \,(\lfloor d/2 \rfloor + d \bmod 2 - 1)

    The two ends get 1, a node that one of them cannot reach gets 0. Different unordered pairs
    of distances get different labels. See https://arxiv.org/abs/1802.09691.

    Args:
        edge_index: links within the subgraphs, each in both directions; none may join the two
            ends of one subgraph.
        ends: the two ends of each subgraph.
        nodes: number of nodes of all subgraphs together.

    Example:
        >>> path = torch.tensor([[0, 1, 1, 2, 2, 3], [1, 0, 2, 1, 3, 2]])
        >>> drnl(path, torch.tensor([[0], [3]]), nodes=4)
        tensor([1, 3, 3, 1])
    """
    near, far = distances(edge_index, ends, nodes=nodes).sort(dim=1).values.unbind(dim=1)
    half, odd = (near + far) // 2, (near + far) % 2
    labels = (1 + near + half * (half + odd - 1)).where(near != UNREACHABLE, 0)
    return labels.index_fill(0, ends.flatten(), 1)


def distances(
    edge_index: Tensor, ends: Tensor, *, nodes: int
) -> Tensor:  # [2, edges], [2, subgraphs] -> [nodes, 2]
    """Steps from the first and from the second end, on paths that avoid the other end.

    All subgraphs are searched in step, one ring of nodes at a time, so the number of rounds is
    the largest distance found.
    """
    source, target = edge_index.numpy()
    one, two = ends.numpy()
    ones = np.ones(len(source), dtype=np.float32)
    arriving = csr_array((ones, (target, source)), shape=(nodes, nodes))
    found = np.full((nodes, 2), UNREACHABLE)
    found[one, 0] = found[two, 1] = 0
    ring, steps = found == 0, 0
    while ring.any():
        steps += 1
        ring = (arriving @ ring.astype(np.float32) > 0) & (found == UNREACHABLE)
        ring[two, 0] = ring[one, 1] = False
        found[ring] = steps
    return torch.from_numpy(found)


class Likeness:
    r"""Cosine of the attributes of two nodes, taken about their mean over all nodes.

    .. math::
        \frac{(x_i - \bar x) \cdot (x_j - \bar x)}{|x_i - \bar x|\,|x_j - \bar x|}

    It is 0 where a node has nothing that sets it apart from the mean.

    Args:
        x: attributes, ``[nodes, attributes]``.

    Example:
        >>> likeness = Likeness(torch.tensor([[1.0, 0.0], [0.0, 1.0], [1.0, 0.0], [0.0, 1.0]]))
        >>> likeness.between(torch.tensor([0, 0]), torch.tensor([1, 2])).round()
        tensor([-1.,  1.])
    """

    def __init__(self, x: Tensor) -> None:
        x = x.cpu().double()  # or rounding would set equal nodes apart
        self.directions = F.normalize(x - x.mean(dim=0), dim=1).float()

    def between(self, one: Tensor, two: Tensor) -> Tensor:  # [pairs], [pairs] -> [pairs]
        """The cosine of each pair of nodes."""
        parts = zip(one.split(ROWS), two.split(ROWS), strict=True)
        return torch.cat([(self.directions[a] * self.directions[b]).sum(dim=1) for a, b in parts])
