"""How a DropConnect network learns its weights, and how often to keep a link."""

from __future__ import annotations

import copy
import math
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor
from torch_geometric.data import Data

from varigraph.baselines.drop_connect_links import MaskedLinks
from varigraph.baselines.drop_connect_network import DropConnectNetwork
from varigraph.errors import ModelError

#: α of the prior Beta(α, 1) of the chance of a link to be kept.
PRIOR = 0.8
#: The divergence from the priors grows to its full weight over so many epochs.
WARM_UP = 20
#: So often, in epochs, the validation loss is taken, from so many draws.
LOOK_EVERY, DRAWS_PER_LOOK = 10, 20
#: Of those draws: not one that predictions start from, lest the weights suit their very masks.
LOOK_SEED = 2**40 + 1


@dataclass(frozen=True, eq=False)
class Lesson:
    """Trains a network on the whole graph at once, and stops when it gets no better.

    Args:
        network: what is trained.
        graph: with labels and masks; only labels of ``train_mask`` and ``val_mask`` are read.
        links: those of the graph.
        generator: draws the masks.
    """

    network: DropConnectNetwork
    graph: Data
    links: MaskedLinks
    generator: torch.Generator

    def train(self, epochs: int, patience: int, learning_rate: float) -> int:
        """Leaves the best weights in the network, and says after which epoch they were found.

        Args:
            epochs: steps of the optimiser, at most.
            patience: stop after so many epochs without a better validation loss.
            learning_rate: of Adam.

        Raises:
            ModelError: the validation loss never was a number.
        """
        optimiser = torch.optim.Adam(self.network.parameters(), lr=learning_rate)
        best, best_epoch, kept = math.inf, 0, self.network.state_dict()
        for epoch in range(1, epochs + 1):
            optimiser.zero_grad()
            self.loss(min(1.0, epoch / WARM_UP)).backward()
            optimiser.step()
            if epoch % LOOK_EVERY and epoch < epochs:
                continue
            loss = self.validation_loss()
            if loss < best:
                best, best_epoch, kept = loss, epoch, copy.deepcopy(self.network.state_dict())
            if epoch - best_epoch >= patience:
                break
        if not math.isfinite(best):
            raise ModelError(
                "the validation loss is not a number", "lower the learning rate: learning_rate=1e-3"
            )
        self.network.load_state_dict(kept)
        return best_epoch

    def loss(self, share: float) -> Tensor:  # -> []
        """Loss under relaxed masks drawn anew; ``share`` of the divergence counts."""
        mask = self.graph.train_mask
        messages = self.network.first_messages(self.graph.x)
        logits = self.network(messages, self.links, self.generator, relaxed=True)
        surprise = F.cross_entropy(logits[mask], self.graph.y[mask])
        total: Tensor = surprise + share * self.network.divergence(PRIOR) / mask.sum()
        return total

    @torch.no_grad()
    def validation_loss(self) -> float:
        """Of the mean over a few draws, always the same ones: no weights win by a lucky draw."""
        mask, draw = self.graph.val_mask, torch.Generator().manual_seed(LOOK_SEED)
        messages = self.network.first_messages(self.graph.x)
        draws = [
            self.network(messages, self.links, draw, relaxed=False)[mask].log_softmax(dim=-1)
            for _ in range(DRAWS_PER_LOOK)
        ]
        mean = torch.stack(draws).logsumexp(dim=0) - math.log(DRAWS_PER_LOOK)
        return F.nll_loss(mean, self.graph.y[mask]).item()
