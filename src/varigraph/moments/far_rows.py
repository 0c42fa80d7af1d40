"""Rows of a value that another process computes: how they are asked for, where a graph is in parts.

A process has its own nodes, and copies of those that links to them start at. What a layer makes of
the copies is wrong, for it does not know the links that lead to them: before the next layer looks
at them, the rows of their owners take their place.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Protocol

import torch
from torch import Tensor
from torch_geometric.nn.conv.gcn_conv import gcn_norm
from torch_geometric.utils import add_remaining_self_loops, scatter

from varigraph.errors import MissingRuleError, ModelError
from varigraph.moments.links import plain


class FarRows(Protocol):
    """Whoever can ask other processes for rows."""

    def refreshed(self, values: Sequence[Tensor]) -> list[Tensor]:  # [rows, ...] each
        """The same values, with the rows of other processes' nodes as these have them."""


_current: ContextVar[FarRows | None] = ContextVar("far rows", default=None)


def far_rows() -> FarRows | None:
    """Whom to ask for rows of others; None where all nodes are here."""
    return _current.get()


@contextmanager
def asking_others(far: FarRows) -> Iterator[None]:
    """While this is open, rows of others are asked for here."""
    token = _current.set(far)
    try:
        yield
    finally:
        _current.reset(token)


def normalised_links(
    edge_index: Tensor,  # [2, links]
    edge_weight: Tensor | None = None,  # [links]
    num_nodes: int | None = None,
    improved: bool = False,
    add_self_loops: bool = True,
    flow: str = "source_to_target",
    dtype: torch.dtype | None = None,
) -> tuple[Tensor, Tensor]:
    r"""GCN's weights :math:`w_{uv} / \sqrt{d_u d_v}`, with the degrees of the whole graph.

    As torch_geometric's ``gcn_norm``, whose parameters these are; but the degree of a node that
    belongs to another process is what that has counted.
    """
    far = far_rows()
    if far is None:
        links: tuple[Tensor, Tensor] = gcn_norm(
            edge_index, edge_weight, num_nodes, improved, add_self_loops, flow, dtype
        )
        return links
    if not isinstance(edge_index, Tensor) or edge_index.layout != torch.strided:
        raise ModelError(
            "a layer that divides by degrees was given a matrix, of a graph in parts",
            "pass edge_index, [2, edges], in the place of the adjacency",
        )
    assert num_nodes is not None  # all layers know it
    ends, fill = plain(edge_index), 2.0 if improved else 1.0
    if add_self_loops:
        ends, edge_weight = add_remaining_self_loops(ends, edge_weight, fill, num_nodes)
    if edge_weight is None:
        edge_weight = torch.ones(ends.shape[1], dtype=dtype, device=ends.device)
    degree = scatter(edge_weight, ends[1], dim=0, dim_size=num_nodes, reduce="sum")
    (degree,) = far.refreshed([degree])
    root = degree.pow(-0.5).masked_fill(degree == 0, 0)
    return ends, root[ends[0]] * edge_weight * root[ends[1]]


def refuse_far_degrees() -> None:
    """Raises in a part: how degrees vary when links are removed is known at their nodes alone."""
    if far_rows() is not None:
        raise MissingRuleError(
            "GCN's degrees, of which links may be removed, have no closed form in parts of a graph",
            'method="sampled", or links="bernoulli", which silences messages and removes no link',
        )
