"""Graphs as nobody draws them: hubs, loops, links listed twice, lonely nodes, odd memory."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor
from torch_geometric.data import Data
from torch_geometric.utils import to_torch_csr_tensor

from campaign.choices import Choices
from varigraph.sparse import without_notices

Generator = torch.Generator


def ring(nodes: int, _: Generator) -> Tensor:  # -> [2, links]
    """Every node with the next one."""
    here = torch.arange(nodes)
    return torch.stack([here, (here + 1) % nodes])


def hub(nodes: int, _: Generator) -> Tensor:
    """Every node with the first one, which is its own neighbour too."""
    here = torch.arange(nodes)
    return torch.stack([here, torch.zeros_like(here)])


def scattered(nodes: int, generator: Generator) -> Tensor:
    """Twice as many links as nodes, anywhere: loops, repeats and lonely nodes included."""
    return torch.randint(nodes, (2, 2 * nodes), generator=generator)


def crowd(nodes: int, _: Generator) -> Tensor:
    """Everybody with everybody, where they are few."""
    few = torch.arange(min(nodes, 8))
    return torch.cartesian_prod(few, few).T


def pair(nodes: int, _: Generator) -> Tensor:
    """One link; all other nodes are alone."""
    return torch.tensor([[0], [nodes - 1]])


def none(_: int, __: Generator) -> Tensor:
    """No link at all."""
    return torch.empty(2, 0, dtype=torch.long)


SHAPES: tuple[Callable[[int, Generator], Tensor], ...] = (
    ring, scattered, scattered, scattered, hub, crowd, pair, none,
)  # fmt: skip


def links(choose: Choices, nodes: int) -> Tensor:  # -> [2, links]
    """Links of some shape, in one direction or both, some of them loops, some listed twice."""
    edges = choose.one_of(SHAPES)(nodes, choose.generator()) if nodes else none(0, Generator())
    if not choose.happens(30):
        edges = torch.cat([edges, edges.flip(0)], 1)
    if choose.happens(50):
        edges = edges[:, edges[0] != edges[1]]
    elif choose.happens(20):
        edges = torch.cat([edges, torch.arange(nodes).expand(2, -1)], 1)
    if choose.happens(50):
        edges = torch.unique(edges, dim=1)
    elif choose.happens(20):
        edges = torch.cat([edges, edges[:, : edges.shape[1] // 2]], 1)
    return edges.T.contiguous().T if choose.happens(20) else edges.contiguous()


def normal(nodes: int, features: int, generator: Generator) -> Tensor:  # -> [nodes, features]
    """Features of size 1."""
    return torch.randn(nodes, features, generator=generator)


def words(nodes: int, features: int, generator: Generator) -> Tensor:
    """Zeros and ones, many rows of zeros alone."""
    return (torch.rand(nodes, features, generator=generator) < 0.2).float()


def far(nodes: int, features: int, generator: Generator) -> Tensor:
    """A large offset beside a small signal."""
    return 100 + torch.randn(nodes, features, generator=generator)


def zero(nodes: int, features: int, _: Generator) -> Tensor:
    """Nothing: every activation stands at its bias."""
    return torch.zeros(nodes, features)


CONTENTS = (normal, normal, normal, normal, words, words, far, zero)


def contiguous(x: Tensor) -> Tensor:  # [nodes, features] -> [nodes, features]
    """Rows one after the other."""
    return x.contiguous()


def transposed(x: Tensor) -> Tensor:
    """Columns one after the other."""
    return x.T.contiguous().T


def sliced(x: Tensor) -> Tensor:
    """Every other column of a wider matrix."""
    return x.repeat_interleave(2, dim=1)[:, ::2]


def expanded(x: Tensor) -> Tensor:
    """The first row for all nodes, in the memory of one."""
    return x[:1].expand_as(x)


LAYOUTS = (contiguous, contiguous, contiguous, transposed, sliced, expanded)


def chances(choose: Choices, edges: Tensor, nodes: int) -> Tensor | None:  # [2, m] -> [m]
    """Chances of the links, alike for both directions or not; None where links are certain."""
    if choose.happens(50):
        return None
    table = torch.rand(nodes, nodes, generator=choose.generator(), dtype=torch.float64)
    if not choose.happens(30):
        table = torch.maximum(table, table.T)
    kind = choose.one_of(("between", "between", "sure", "partly sure", "partly impossible"))
    if kind == "sure":
        table = torch.ones_like(table)
    elif kind == "partly sure":
        table[table > 0.5] = 1
    elif kind == "partly impossible" and choose.happens(20):
        table[table < 0.1] = 0
    return table[edges[0], edges[1]].clamp_min(0 if kind == "partly impossible" else 1e-3)


def graph(choose: Choices) -> Data:
    """A graph with features and links, perhaps with chances, without noise."""
    nodes = choose.one_of((3, 4, 5, 2, 6, 8, 10, 12, 1, 4, 5, 6, 8, 20, 60))
    nodes = 0 if choose.happens(1) else nodes
    features = choose.one_of((2, 3, 4, 1, 7))
    content, layout = choose.one_of(CONTENTS), choose.one_of(LAYOUTS)
    dtype = choose.one_of((torch.float32, torch.float64))
    edges = links(choose, nodes)
    data = Data(x=layout(content(nodes, features, choose.generator()).to(dtype)), edge_index=edges)
    prob = chances(choose, edges, nodes)
    if prob is not None:
        data.edge_prob = prob.to(choose.one_of((dtype, torch.float32)))
    elif choose.happens(8) and nodes:
        ones = torch.ones(edges.shape[1], dtype=dtype)
        with without_notices():  # torch has one for the first such tensor of a process
            data.adj_t = to_torch_csr_tensor(edges.flip(0), ones, size=nodes)
        data.edge_index = None
    return data
