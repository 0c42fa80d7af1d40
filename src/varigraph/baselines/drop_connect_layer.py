"""A graph convolution whose links are kept or dropped at random, apart for blocks of features."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from varigraph.baselines.drop_connect_links import MaskedLinks
from varigraph.baselines.kumaraswamy import Kumaraswamy

#: Of the relaxed masks: 0 would be hard ones, which have no gradient.
TEMPERATURE = 0.67
#: Relaxed masks of chances nearer than this to 0 or 1 have no gradient.
CERTAIN = 1e-6


class DropConnectLayer(nn.Module):
    r"""Sum over the neighbours v of a node u, themselves included, and over blocks of features.

    .. math::
        h_u' = b + \sum_{v, k} z_{vuk}\, w_{vu}\, h_v^{(k)} W^{(k)}, \qquad
        z_{vuk} \sim \mathrm{Bernoulli}(\pi), \qquad \pi \sim \mathrm{Kumaraswamy}(a, b)

    One :math:`\pi`, the chance of a link to be kept, serves the whole layer. What is kept is not
    scaled up, so that with :math:`\pi = 1` it is a GCN layer.

    Args:
        inputs: features per node.
        outputs: features per node afterwards.
        blocks: the inputs are split into so many blocks, each with masks of its own.
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
        """What is believed about the chance of a link to be kept."""
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
