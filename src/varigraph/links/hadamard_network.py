"""The network behind the Hadamard scorer: nodes become vectors, pairs become their products."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from varigraph.links.messages import Neighbours
from varigraph.links.node_inputs import INPUTS

#: How far messages travel.
LAYERS = 2
#: Numbers of 256 that training leaves out, about 30 %.
DROPPED = 77


class HadamardNetwork(nn.Module):
    r"""GraphSAGE with means over neighbours, then a small network on the products of ends.

    .. math::
        h_u &\leftarrow \operatorname{norm}\Big(
            W h_u + V \tfrac{1}{|N(u)|} \sum_{w \in N(u)} h_w + b\Big) \\
        s_{uv} &= \operatorname{mlp}(h_u \odot h_v)

    with a ReLU between the layers. The product does not care about the order of the ends.

    Args:
        width: numbers that each node has inside.
        generator: draws the first weights and what dropout leaves out.
    """

    def __init__(self, *, width: int, generator: torch.Generator) -> None:
        super().__init__()
        seed = int(torch.randint(2**62, (), generator=generator))
        with torch.random.fork_rng(devices=[]):
            torch.default_generator.manual_seed(seed)
            self._build(width)
        self.generator = generator

    def _build(self, width: int) -> None:
        widths = [INPUTS] + [width] * (LAYERS - 1)
        self.own = nn.ModuleList(nn.Linear(before, width) for before in widths)
        self.heard = nn.ModuleList(nn.Linear(before, width, bias=False) for before in widths)
        self.norm = nn.ModuleList(nn.LayerNorm(width) for _ in widths)
        self.judge = nn.Sequential(nn.Linear(width, width), nn.ReLU(), nn.Linear(width, 1))

    def encoded(self, x: Tensor, neighbours: Neighbours) -> Tensor:
        """One vector for each node: ``[nodes, features]`` -> ``[nodes, width]``."""
        h = self._dropped(x)
        layers = zip(self.own, self.heard, self.norm, strict=True)
        for number, (own, heard, norm) in enumerate(layers, start=1):
            h = norm(own(h) + heard(neighbours.mean(h)))
            h = self._dropped(F.relu(h) if number < LAYERS else h)
        return h

    def judged(self, h: Tensor, pairs: Tensor) -> Tensor:  # [nodes, width], [2, pairs] -> [pairs]
        """Log odds that each pair is a link."""
        logits: Tensor = self.judge(h[pairs[0]] * h[pairs[1]])
        return logits.squeeze(1)

    def _dropped(self, h: Tensor) -> Tensor:  # [nodes, features] -> [nodes, features]
        if not self.training:
            return h
        # One random byte for each number: eight times fewer draws than torch's own dropout.
        words = torch.empty(-(-h.numel() // 8), dtype=torch.int64)
        words.random_(-(2**63), None, generator=self.generator)
        keep = words.view(torch.uint8)[: h.numel()].view(h.shape) >= DROPPED
        return h * keep.to(h.device) * (256 / (256 - DROPPED))
