"""The links of a graph, each of which may be masked apart for every block of features."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch_geometric.data import Data
from torch_geometric.nn.conv.gcn_conv import gcn_norm

from varigraph.moments import LinkProbabilities
from varigraph.moments.sparse import csr_tensor


class MaskedLinks:
    r"""Links and self-loops weighed as in a GCN, :math:`w_{vu} = (d_v d_u)^{-1/2}`.

    Weights are those of the whole graph: masks act on what is normalised already. Where the graph
    has ``edge_prob`` a link weighs :math:`p_{vu} w_{vu}`, as in :func:`varigraph.train`.

    Args:
        graph: with ``x``, ``edge_index`` and maybe ``edge_prob``.
        blocks: number of blocks of features that have masks of their own.

    Attributes:
        edge_index: links and loops in the order of the masks, ``[2, links]``.
        weight: of each, ``[links]``.
    """

    def __init__(self, graph: Data, *, blocks: int) -> None:
        nodes, dtype = len(graph.x), graph.x.dtype
        links, weight = gcn_norm(graph.edge_index, num_nodes=nodes, dtype=dtype)
        if graph.get("edge_prob") is not None:
            chances = LinkProbabilities(graph.edge_index, graph.edge_prob.to(dtype), nodes)
            weight = weight * chances.of(links, own_loops=True)
        order = (links[1] * nodes + links[0]).argsort(stable=True)
        self.edge_index, self.weight, self.blocks = links[:, order], weight[order], blocks
        block = torch.arange(blocks, device=links.device)
        # One product serves all blocks: a node's messages lie below each other, block by block.
        self._rows = self.edge_index[1].repeat_interleave(blocks)
        self._columns = (self.edge_index[0, :, None] * blocks + block).flatten()
        self._shape = nodes, nodes * blocks
        self._by_column = self._columns.argsort(stable=True)
        self._sources = self._rows[self._by_column]
        self._start = _starts(self._rows, nodes)
        self._start_by_column = _starts(self._columns, nodes * blocks)

    def sum(self, messages: Tensor, mask: Tensor) -> Tensor:
        r""":math:`\sum_{v, b} w_{vu} z_{vub} m_{vb}` for every node u, ``[nodes, outputs]``.

        Args:
            messages: of each node from each block, ``[nodes, blocks, outputs]``.
            mask: of each link for each block, ``[links, blocks]``.
        """
        weights = (self.weight[:, None] * mask).flatten()
        total: Tensor = _Sum.apply(self, weights, messages.flatten(0, 1))  # type: ignore[no-untyped-call]
        return total

    def matrix(self, weights: Tensor) -> Tensor:  # [entries] -> [nodes, nodes * blocks]
        """The sum as a matrix."""
        return csr_tensor(self._start, self._columns, weights, self._shape)

    def transpose(self, weights: Tensor) -> Tensor:  # [entries] -> [nodes * blocks, nodes]
        """The same matrix, rows and columns exchanged."""
        values = weights[self._by_column]
        return csr_tensor(self._start_by_column, self._sources, values, self._shape[::-1])


def _starts(sorted_by: Tensor, count: int) -> Tensor:  # [entries] -> [count + 1]
    return F.pad(torch.bincount(sorted_by, minlength=count).cumsum(0), (1, 0))


class _Sum(torch.autograd.Function):
    """``matrix(weights) @ messages``. torch itself would form a message for every entry."""

    @staticmethod
    def forward(ctx: Any, links: MaskedLinks, weights: Tensor, messages: Tensor) -> Tensor:
        ctx.links = links
        ctx.save_for_backward(weights, messages)
        return links.matrix(weights) @ messages.contiguous()

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[None, Tensor, Tensor]:
        links: MaskedLinks = ctx.links
        weights, messages = ctx.saved_tensors
        above = gradients[0].contiguous()
        pattern = links.matrix(torch.zeros_like(weights))
        products = torch.sparse.sampled_addmm(pattern, above, messages.T)
        return None, products.values(), links.transpose(weights) @ above
