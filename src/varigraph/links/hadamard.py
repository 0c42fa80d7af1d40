"""The fast scorer: one pass of messages over the whole graph serves all pairs at once."""

from __future__ import annotations

import copy
import math
from collections.abc import Iterator

import torch
import torch.nn.functional as F
from torch import Tensor

from varigraph.errors import GraphError, ModelError
from varigraph.links.hadamard_network import HadamardNetwork
from varigraph.links.link_pairs import pair_numbers
from varigraph.links.messages import Messages, Neighbours
from varigraph.links.node_inputs import NodeInputs
from varigraph.links.scorer import Tell

#: Fewest parts into which the examples are divided; one part is learnt from in each step.
PARTS = 10
#: Most links that are learnt from in one step.
BATCH = 2048
#: Steps between two looks at the held pairs.
LOOK = 10
LEARNING_RATE, WEIGHT_DECAY = 1e-2, 1e-3


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
        tell: Tell,
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
                tell(step / self._steps)
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
        """How badly links and non-links are told apart while these links are silent."""
        silent = torch.isin(self._links, pair_numbers(links))
        pairs = torch.cat([links, others], dim=1)
        logits = self._judged(network, pairs, self._messages.without(silent))
        return _loss(logits, torch.arange(len(logits), device=logits.device) < links.size(1))

    def _judged(self, network: HadamardNetwork, pairs: Tensor, neighbours: Neighbours) -> Tensor:
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
