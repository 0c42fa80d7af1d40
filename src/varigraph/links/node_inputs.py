"""What the Hadamard scorer knows of each node before any message arrives."""

from __future__ import annotations

import torch
from torch import Tensor

from varigraph.links.messages import Neighbours

#: Numbers that each node comes with: directions or marks, and how many neighbours it has.
WIDTH = 128
INPUTS = WIDTH + 1
#: Rounds of subspace iteration, and directions that are searched beyond those kept.
ROUNDS, SPARE = 3, 16
#: Whatever varies by less than this share of its size varies by rounding alone.
FAINT = 1e-5


class NodeInputs:
    """Main directions of the features, random marks, and how many neighbours are heard.

    Marks make up the numbers that the features do not give. They show structure: the mean of the
    neighbours' marks is alike for two nodes that share neighbours.

    Args:
        x: the nodes' features ``[nodes, features]``, or None.
        nodes: how many nodes there are.
        device: where to compute.
        generator: draws the marks.
    """

    def __init__(
        self, x: Tensor | None, *, nodes: int, device: torch.device, generator: torch.Generator
    ) -> None:
        known = torch.empty(nodes, 0) if x is None else main_directions(x, generator).float()
        marks = torch.randn(nodes, WIDTH - known.size(1), generator=generator)
        self._fixed = torch.cat([known.to(device), marks.to(device)], dim=1)

    def seen_with(self, neighbours: Neighbours) -> Tensor:  # -> [nodes, INPUTS]
        """The numbers of each node; its neighbours are counted among those heard."""
        return torch.cat([self._fixed, neighbours.degree.log1p()], dim=1)


def main_directions(x: Tensor, generator: torch.Generator) -> Tensor:
    """At most :data:`WIDTH` numbers that tell most about x, each of mean 0 and variance 1, double.

    ``[nodes, features]`` -> ``[nodes, directions]``. Few features stay as they are; many are
    turned to their main directions, found by subspace iteration from a random start. Features
    that are the same everywhere are left out.
    """
    x = x.double() / x.abs().max().clamp_min(torch.finfo(x.dtype).tiny)  # squares must not overflow
    z = x - x.mean(dim=0)
    z = z[:, z.square().mean(dim=0) > FAINT**2 * x.square().mean(dim=0)]
    if z.size(1) > WIDTH:
        z = _turned(z, generator)
    return z / z.square().mean(dim=0).sqrt()


def _turned(z: Tensor, generator: torch.Generator) -> Tensor:
    basis = torch.randn(z.size(1), WIDTH + SPARE, generator=generator).to(z)
    for _ in range(ROUNDS):
        basis = torch.linalg.qr(z.mT @ (z @ basis)).Q
    directions, sizes, _ = torch.linalg.svd(z @ basis, full_matrices=False)
    clear: Tensor = sizes[:WIDTH] > FAINT * sizes[0]
    turned: Tensor = directions * sizes
    return turned[:, :WIDTH][:, clear]
