"""The network that judges subgraphs: graph convolutions, sort pooling, then ordinary ones."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from varigraph.links.subgraphs import Subgraphs

WIDTHS = (32, 32, 32, 1)
#: Fewest nodes that two convolutions and a pooling leave something of.
FEWEST = 10


class Dgcnn(nn.Module):
    r"""A number for each subgraph, whatever the order of its nodes.

    .. math::
        H_{t+1} = \tanh\left(\tilde D^{-1} ((A + I) H_t W_t + b_t)\right),
        \qquad \tilde D = \operatorname{diag}(A 1) + I

    for four layers of widths 32, 32, 32 and 1, from the one-hot labels of the nodes and their
    likeness to the ends. With the layers side by side, the nodes are sorted by the last channel,
    and the first ``kept`` pass through two one-dimensional convolutions and a dense layer.
    See https://doi.org/10.1609/aaai.v32i1.11782.

    Args:
        labels: number of different labels; larger ones count as the largest.
        alike: columns of :attr:`Subgraphs.alike`.
        kept: nodes that sort pooling keeps of a subgraph, at least 10.
        dropout: before the last layer.
    """

    def __init__(self, *, labels: int, alike: int, kept: int, dropout: float = 0.5) -> None:
        super().__init__()
        self.labels, self.kept = labels, kept
        inputs = (labels + alike, *WIDTHS[:-1])
        self.layers = nn.ModuleList(map(_Layer, inputs, WIDTHS))
        # A convolution whose kernel and stride are one node: the same linear map for each.
        self.node = nn.Linear(sum(WIDTHS), 16)
        self.read = nn.Sequential(
            nn.ReLU(),
            nn.MaxPool1d(2),
            nn.Conv1d(16, 32, kernel_size=5),
            nn.ReLU(),
            nn.Flatten(),
            nn.Linear(32 * (kept // 2 - 4), 128),
            nn.ReLU(),
            nn.Dropout(dropout),
            nn.Linear(128, 1),
        )

    def forward(self, graphs: Subgraphs) -> Tensor:  # -> [subgraphs]
        """Log odds, one for each subgraph."""
        one_hot = F.one_hot(graphs.labels.clamp(max=self.labels - 1), self.labels)
        h = torch.cat([one_hot, graphs.alike], dim=1).to(self.node.weight.dtype)  # [nodes, inputs]
        source, target = graphs.edge_index
        degree = target.bincount(minlength=len(h))
        channels = []
        for layer in self.layers:
            h = layer(h, source, degree)
            channels.append(h)
        pooled = sort_pool(torch.cat(channels, dim=1), graphs.sizes, self.kept)
        logits: Tensor = self.read(self.node(pooled).transpose(1, 2)).squeeze(1)
        return logits


def sort_pool(
    h: Tensor, sizes: Tensor, kept: int
) -> Tensor:  # [nodes, channels], [graphs] -> [graphs, kept, channels]
    """The ``kept`` nodes with the largest last channel, in that order; zeros where there are fewer.

    Args:
        h: nodes of all graphs, one graph after the other.
        sizes: how many nodes each graph has.
        kept: nodes to keep of each.
    """
    graph = torch.repeat_interleave(sizes)  # [nodes]
    order = h[:, -1].detach().argsort(descending=True, stable=True)
    order = order[graph[order].argsort(stable=True)]
    rank = torch.arange(len(h)) - (sizes.cumsum(0) - sizes)[graph]
    chosen = rank < kept
    pooled = h.new_zeros(len(sizes) * kept, h.size(1))
    pooled = pooled.index_copy(0, (graph * kept + rank)[chosen], h[order[chosen]])
    return pooled.view(len(sizes), kept, -1)


class _Layer(nn.Module):
    """One step of the formula above."""

    def __init__(self, inputs: int, width: int) -> None:
        super().__init__()
        self.weigh = nn.Linear(inputs, width, bias=False)
        self.bias = nn.Parameter(torch.zeros(width))

    def forward(
        self, h: Tensor, source: Tensor, degree: Tensor
    ) -> Tensor:  # [nodes, inputs], [edges], [nodes] -> [nodes, width]
        h = self.weigh(h)
        heard = _NeighbourSum.apply(h, source, degree)  # type: ignore[no-untyped-call]
        return torch.tanh((h + heard + self.bias) / (degree + 1).unsqueeze(1))


class _NeighbourSum(torch.autograd.Function):
    """Sum over the neighbours of each node. Links run both ways, so it is its own transpose."""

    @staticmethod
    def forward(ctx: Any, h: Tensor, source: Tensor, degree: Tensor) -> Tensor:
        # An embedding bag adds rows up without copying them first: ten times as fast.
        ctx.source, ctx.starts = source, degree.cumsum(0) - degree
        return F.embedding_bag(source, h, ctx.starts, mode="sum")

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None, None]:
        return F.embedding_bag(ctx.source, grad.contiguous(), ctx.starts, mode="sum"), None, None
