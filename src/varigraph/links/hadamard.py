"""The fast scorer: one pass of messages over the whole graph serves all pairs at once."""

from __future__ import annotations

import copy
import math
from collections.abc import Iterator

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from varigraph.errors import GraphError, ModelError
from varigraph.links.link_pairs import pair_numbers
from varigraph.links.methods import Messages, NeighbourMeans, Report

#: Fewest parts into which the examples are divided; one part is learnt from in each step.
PARTS = 10
#: Most links that are learnt from in one step.
BATCH = 2048
#: Steps between two looks at the held pairs.
LOOK = 10
LEARNING_RATE, WEIGHT_DECAY = 1e-2, 1e-3
#: How far messages travel.
LAYERS = 2
#: Numbers of 256 that training leaves out, about 30 %.
DROPPED = 77
#: Numbers that each node comes with: directions or marks, and how many neighbours it has.
WIDTH = 128
INPUTS = WIDTH + 1
#: Rounds of subspace iteration, and directions that are searched beyond those kept.
ROUNDS, EXTRA = 3, 16
#: Whatever varies by less than this share of its size varies by rounding alone.
FAINT = 1e-5


class Hadamard:
    """Scores a pair by the product of its ends' vectors, which a GraphSAGE network computes.

    In each step of training some links are learnt from, and just these are silent: messages
    travel over the others. So the network never sees the link that it is asked about.

    Args:
        links: links that may be seen, each once, ``[2, links]``.
        nodes: how many nodes there are.
        x: their features ``[nodes, features]``, or None.
        seed: of everything random here; torch's own generator is left alone.
        steps: of training.
        width: numbers that each node has inside.
    """

    def __init__(
        self,
        links: Tensor,
        *,
        nodes: int,
        x: Tensor | None = None,
        seed: int = 0,
        steps: int = 200,
        width: int = 128,
    ) -> None:
        self._generator = torch.Generator().manual_seed(seed)
        self._links = pair_numbers(links)
        self._messages = Messages(links, nodes=nodes)
        self._inputs = NodeInputs(x, nodes=nodes, device=links.device, generator=self._generator)
        self._steps, self._width = steps, width
        self._network: HadamardNetwork | None = None

    def fit(
        self,
        pairs: Tensor,  # [2, examples]
        real: Tensor,  # [examples] bool
        held: Tensor,  # [2, held]
        held_real: Tensor,  # [held] bool
        report: Report,
    ) -> None:
        """Learns which pairs are real, and keeps the weights that judge the held ones best.

        Raises:
            ModelError: if the loss is never a number.
        """
        network = HadamardNetwork(width=self._width, generator=self._generator).to(pairs.device)
        optimiser = torch.optim.Adam(network.parameters(), LEARNING_RATE, weight_decay=WEIGHT_DECAY)
        schedule = torch.optim.lr_scheduler.LambdaLR(
            optimiser, lambda step: _rate((step + 1) / (self._steps + 1))
        )
        parts = self._parts(pairs[:, real], pairs[:, ~real])
        least, best = math.inf, None
        for step in range(1, self._steps + 1):
            optimiser.zero_grad()
            self._loss(network.train(), *next(parts)).backward()
            optimiser.step()
            schedule.step()
            if step % LOOK == 0 or step == self._steps:
                loss = float(_loss(self._unseen(network, held), held_real))
                if loss < least:
                    least, best = loss, copy.deepcopy(network.state_dict())
                report(step / self._steps)
        if best is None:
            raise ModelError(
                "the loss on the held pairs is not a number",
                "bring the features to a common scale: graph.x = graph.x / graph.x.abs().max()",
            )
        network.load_state_dict(best)
        self._network = network

    def logits(self, pairs: Tensor) -> Tensor:  # [2, pairs] -> [pairs]
        """Log odds that each pair is a link.

        Raises:
            GraphError: if a pair is among the links over which messages travel, because its score
                would be influenced by itself.
            ModelError: if nothing has been learnt yet.
        """
        if self._network is None:
            raise ModelError("this scorer has not learnt anything yet", "call its fit first")
        return self._unseen(self._network, pairs)

    @torch.no_grad()
    def _unseen(self, network: HadamardNetwork, pairs: Tensor) -> Tensor:  # [2, pairs] -> [pairs]
        seen = torch.isin(pair_numbers(pairs), self._links)
        if seen.any():
            one, two = pairs[:, seen][:, 0].tolist()
            raise GraphError(
                f"the pair ({one}, {two}) is among the links that this model may see",
                "score pairs that were kept from it, as vg.link_probabilities does",
            )
        return self._judged(network.eval(), pairs, self._messages.all())

    def _loss(self, network: HadamardNetwork, links: Tensor, others: Tensor) -> Tensor:
        """How badly links and non-links are distinguished while these links are silent."""
        silent = torch.isin(self._links, pair_numbers(links))
        pairs = torch.cat([links, others], dim=1)
        logits = self._judged(network, pairs, self._messages.without(silent))
        return _loss(logits, torch.arange(len(logits), device=logits.device) < links.size(1))

    def _judged(
        self, network: HadamardNetwork, pairs: Tensor, neighbours: NeighbourMeans
    ) -> Tensor:
        h = network.encoded(self._inputs.seen_with(neighbours), neighbours)
        return network.judged(h, pairs)

    def _parts(self, links: Tensor, others: Tensor) -> Iterator[tuple[Tensor, Tensor]]:
        """Some links and some non-links at a time, for ever; each once before any comes again."""
        count = min(max(PARTS, links.size(1) // BATCH), links.size(1), others.size(1))
        while True:
            yield from zip(self._split(links, count), self._split(others, count), strict=True)

    def _split(self, pairs: Tensor, count: int) -> tuple[Tensor, ...]:  # [2, pairs]
        order = torch.randperm(pairs.size(1), generator=self._generator).to(pairs.device)
        return pairs[:, order].tensor_split(count, dim=1)


def _rate(done: float) -> float:
    """Share of the full learning rate: rises during the first tenth, then falls to 0."""
    return min(10 * done, 1.0) * (1 + math.cos(math.pi * done)) / 2


def _loss(logits: Tensor, real: Tensor) -> Tensor:  # [pairs], [pairs] bool -> []
    """Mean log loss in which links and non-links weigh the same, whatever their numbers."""
    return (F.softplus(-logits[real]).mean() + F.softplus(logits[~real]).mean()) / 2


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

    def encoded(self, x: Tensor, neighbours: NeighbourMeans) -> Tensor:
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

    def seen_with(self, neighbours: NeighbourMeans) -> Tensor:  # -> [nodes, INPUTS]
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
    basis = torch.randn(z.size(1), WIDTH + EXTRA, generator=generator).to(z)
    for _ in range(ROUNDS):
        basis = torch.linalg.qr(z.mT @ (z @ basis)).Q
    directions, sizes, _ = torch.linalg.svd(z @ basis, full_matrices=False)
    clear: Tensor = sizes[:WIDTH] > FAINT * sizes[0]
    turned: Tensor = directions * sizes
    return turned[:, :WIDTH][:, clear]
