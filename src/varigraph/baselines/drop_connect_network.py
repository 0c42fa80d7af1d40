"""Layers of graph DropConnect, one after the other."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import torch
from torch import Tensor, nn

from varigraph.baselines.drop_connect_layer import DropConnectLayer
from varigraph.baselines.drop_connect_links import MaskedLinks


class DropConnectNetwork(nn.Module):
    """Logits by layers of :class:`DropConnectLayer` with ReLU between them.

    Args:
        widths: features, widths of the hidden layers, classes.
        blocks: blocks of features that have masks of their own, in every layer.
        scale: features are multiplied by it, so that they are about 1 in size: masks make every
            layer's answer smaller, and small features would never be heard behind four of them.
        generator: draws the first weights.
    """

    scale: Tensor

    def __init__(
        self,
        widths: Sequence[int],
        *,
        blocks: int,
        scale: Tensor,
        generator: torch.Generator,
    ) -> None:
        super().__init__()
        self.widths, self.blocks = tuple(widths), blocks
        self.register_buffer("scale", scale)
        self.layers = nn.ModuleList(
            DropConnectLayer(inputs, outputs, blocks=blocks, generator=generator)
            for inputs, outputs in pairwise(widths)
        )

    def first_messages(self, x: Tensor) -> Tensor:  # [nodes, features] -> [nodes, blocks, width]
        """What the first layer sends: the same for all masks."""
        return self.scale * self._all[0].messages(x)

    def forward(
        self, messages: Tensor, links: MaskedLinks, generator: torch.Generator, *, relaxed: bool
    ) -> Tensor:
        """Logits ``[nodes, classes]`` under masks drawn anew.

        Args:
            messages: of the first layer, ``[nodes, blocks, width]``.
            links: which way they go.
            generator: draws the masks.
            relaxed: masks with gradients, for training.
        """
        first, *others = self._all
        h: Tensor = first(messages, links, first.mask(links, generator, relaxed=relaxed))
        for layer in others:
            mask = layer.mask(links, generator, relaxed=relaxed)
            h = layer(layer.messages(h.relu()), links, mask)
        return h

    def divergence(self, prior: float) -> Tensor:  # -> []
        r"""How far weights and chances are from their priors, normal(0, 1) and Beta(α, 1).

        .. math::
            \sum_l \tfrac12 E[\pi_l]\, \lVert W_l \rVert^2 + \mathrm{KL}(\pi_l)

        A weight counts as often as it is kept: one that is dropped is back at its prior.

        Args:
            prior: α, of the chance of a link to be kept.
        """
        layers = self._all
        sizes = [layer.keep.mean * layer.weight.square().sum() / 2 for layer in layers]
        return torch.stack(sizes + [layer.keep.divergence(prior) for layer in layers]).sum()

    @property
    def _all(self) -> list[DropConnectLayer]:
        return list(self.layers)  # type: ignore[arg-type]
