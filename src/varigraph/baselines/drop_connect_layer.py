"""A graph convolution that drops links at random, separately for each block of features."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch_geometric.data import Data
from torch_geometric.nn.conv.gcn_conv import gcn_norm

from varigraph.moments import LinkProbabilities
from varigraph.sparse import Sparse

#: Of the relaxed masks: 0 would be hard ones, which have no gradient.
TEMPERATURE = 0.67
#: Relaxed masks of chances nearer than this to 0 or 1 have no gradient.
CERTAIN = 1e-6
EULER = 0.57721566490153286


class DropConnectLayer(nn.Module):
    r"""Sum over the neighbours v of a node u, themselves included, and over blocks of features.

    .. math::
        h_u' = b + \sum_{v, k} z_{vuk}\, w_{vu}\, h_v^{(k)} W^{(k)}, \qquad
        z_{vuk} \sim \mathrm{Bernoulli}(\pi), \qquad \pi \sim \mathrm{Kumaraswamy}(a, b)

    One :math:`\pi`, the chance that a link is kept, serves the whole layer. What is kept is not
    scaled up, so that with :math:`\pi = 1` it is a GCN layer.

    Args:
        inputs: features per node.
        outputs: features per node afterwards.
        blocks: the inputs are split into this many blocks, each with masks of its own.
        generator: draws the first weights and the first a and b.
    """

    def __init__(
        self, inputs: int, outputs: int, *, blocks: int, generator: torch.Generator
    ) -> None:
        super().__init__()
        self.blocks = blocks
        weight = torch.empty(inputs, outputs)
        self.weight = nn.Parameter(nn.init.xavier_uniform_(weight, generator=generator))
        self.bias = nn.Parameter(torch.zeros(outputs))
        # After the softplus a is 1.3 to 1.7 and b about 0.97: links are kept with a chance of 0.6.
        low, high = torch.tensor([1.0, 0.49]), torch.tensor([1.5, 0.51])
        self.shapes = nn.Parameter(low + (high - low) * torch.rand(2, generator=generator))

    @property
    def keep(self) -> Kumaraswamy:
        """What is believed about the chance that a link is kept."""
        a, b = F.softplus(self.shapes)
        return Kumaraswamy(a, b)

    def messages(self, x: Tensor) -> Tensor:  # [nodes, inputs] -> [nodes, blocks, outputs]
        """What nodes send, block by block."""
        blocks = zip(
            x.tensor_split(self.blocks, dim=1), self.weight.tensor_split(self.blocks), strict=True
        )
        return torch.stack([part @ weight for part, weight in blocks], dim=1)

    def forward(self, messages: Tensor, links: MaskedLinks, mask: Tensor) -> Tensor:
        """New features ``[nodes, outputs]``.

        Args:
            messages: ``[nodes, blocks, outputs]``.
            links: which way they go.
            mask: which of them arrive, ``[links, blocks]``.
        """
        return links.sum(messages, mask) + self.bias

    def mask(self, links: MaskedLinks, generator: torch.Generator, *, relaxed: bool) -> Tensor:
        r"""A mask, ``[links, blocks]``, for a :math:`\pi` drawn anew.

        Args:
            links: what is masked.
            generator: source of the randomness, on the CPU.
            relaxed: numbers between 0 and 1 that have gradients (a concrete distribution),
                :math:`\sigma((\mathrm{logit}\,\pi + \mathrm{logit}\,u) / \tau)`, for training.
        """
        keep = self.keep.sample(generator)
        shape = len(links.weight), self.blocks
        u = torch.rand(shape, generator=generator, dtype=keep.dtype).to(keep.device)
        if not relaxed:
            return (u < keep).to(keep.dtype)
        return torch.sigmoid((keep.logit(CERTAIN) + u.logit(CERTAIN)) / TEMPERATURE)


class MaskedLinks:
    r"""Links and self-loops weighted as in a GCN, :math:`w_{vu} = (d_v d_u)^{-1/2}`.

    Weights are those of the whole graph: masks act on what is normalised already. Where the graph
    has ``edge_prob`` a link weighs :math:`p_{vu} w_{vu}`, as in :func:`varigraph.train`.

    Args:
        graph: with ``x``, ``edge_index`` and, if known, ``edge_prob``.
        blocks: number of blocks of features that have masks of their own.

    Attributes:
        edge_index: links and loops in the order of the masks, ``[2, links]``.
        weight: of each, ``[links]``.
        matrix: the sum of what is not masked, ``[nodes, nodes * blocks]``.
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
        # One product serves all blocks: a node's messages are below each other, block by block.
        rows = self.edge_index[1].repeat_interleave(blocks)
        columns = (self.edge_index[0, :, None] * blocks + block).flatten()
        weights = self.weight.repeat_interleave(blocks)
        self.matrix = Sparse(rows, columns, weights, (nodes, nodes * blocks))

    def sum(self, messages: Tensor, mask: Tensor) -> Tensor:
        r""":math:`\sum_{v, b} w_{vu} z_{vub} m_{vb}` for every node u, ``[nodes, outputs]``.

        Args:
            messages: of each node from each block, ``[nodes, blocks, outputs]``.
            mask: of each link for each block, ``[links, blocks]``.
        """
        weights = (self.weight[:, None] * mask).flatten()
        return self.matrix.with_values(weights) @ messages.flatten(0, 1)


@dataclass(frozen=True, eq=False)
class Kumaraswamy:
    r"""Density :math:`a b\, \pi^{a - 1} (1 - \pi^a)^{b - 1}` on :math:`0 < \pi < 1`.

    Everywhere in this package :math:`\pi` is a chance to be kept, never to be dropped.

    Args:
        a: shape, positive.
        b: shape, positive, as many as ``a``.
    """

    a: Tensor
    b: Tensor

    def sample(self, generator: torch.Generator) -> Tensor:
        r""":math:`\pi = (1 - u^{1/b})^{1/a}` for uniform u: a draw that has gradients.

        Args:
            generator: source of the randomness, on the CPU.
        """
        u = torch.rand(self.a.shape, generator=generator, dtype=self.a.dtype).to(self.a.device)
        tiny = torch.finfo(u.dtype).eps
        inner = -torch.expm1(u.clamp(tiny, 1 - tiny).log() / self.b)  # 1 - u^(1/b), all digits kept
        return (inner.log() / self.a).exp()

    @property
    def mean(self) -> Tensor:
        r""":math:`b\, B(1 + 1/a, b)` with the beta function B."""
        one = 1 + 1 / self.a
        return self.b * (one.lgamma() + self.b.lgamma() - (one + self.b).lgamma()).exp()

    def divergence(self, prior: float) -> Tensor:
        r"""Divergence (Kullback-Leibler) from the prior :math:`\mathrm{Beta}(\alpha, 1)`.

        .. math::
            \left(1 - \frac{\alpha}{a}\right) \left(-\gamma - \psi(b) - \frac1b\right)
            + \log\frac{a b}{\alpha} - \frac{b - 1}{b}

        Args:
            prior: :math:`\alpha`; the prior's mean is :math:`\alpha / (1 + \alpha)`.
        """
        bend = -EULER - self.b.digamma() - 1 / self.b
        scale = (self.a * self.b).log() - math.log(prior)
        return (1 - prior / self.a) * bend + scale - (self.b - 1) / self.b
