"""Graph DropConnect (Hasanzadeh et al., 2020): links are dropped, as often as was learned."""

from __future__ import annotations

import copy
import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch_geometric.data import Data

from varigraph.baselines.drop_connect_layer import DropConnectLayer, MaskedLinks
from varigraph.baselines.plain import from_draws
from varigraph.data import check_one_kind
from varigraph.errors import GraphError, ModelError, OptionError
from varigraph.prediction import Prediction
from varigraph.prediction.question import check_model, refuse_scripted
from varigraph.training.train import check_lesson

#: α of the prior Beta(α, 1) of the chance that a link is kept.
PRIOR = 0.8
#: The divergence from the priors grows to its full weight over this many epochs.
WARM_UP = 20
#: Epochs between two validation losses, and the draws for each.
LOOK_EVERY, DRAWS_PER_LOOK = 10, 20
#: Of those draws; predictions start elsewhere, so that weights are not chosen for their masks.
LOOK_SEED = 2**40 + 1


@dataclass(frozen=True, eq=False)
class DropConnect:
    r"""A graph network that drops links at random, and has learned how often.

    .. math::
        \bar y = \frac1T \sum_t \operatorname{softmax}(f(x; z_t)), \qquad
        z_t \sim \mathrm{Bernoulli}(\pi_t), \qquad \pi_t \sim \mathrm{Kumaraswamy}(a, b)

    with a, b for every layer and a mask for every link and block of features. :math:`\pi` is the
    chance that a link is kept, in the masks, in the prior and in the penalty of the weights alike.
    Messages that are kept are not scaled up, so only draws can answer, never their mean.
    https://arxiv.org/abs/2006.04064

    Args:
        network: trained.
        epoch: after which its weights were taken.
    """

    network: DropConnectNetwork
    epoch: int

    @classmethod
    def fit(
        cls,
        graph: Data,
        *,
        layers: int = 4,
        hidden: int = 128,
        blocks: int = 2,
        epochs: int = 300,
        patience: int = 100,
        learning_rate: float = 0.005,
        seed: int = 0,
    ) -> DropConnect:
        r"""Train on the whole graph at once, masks relaxed so that :math:`\pi` has gradients.

        .. math::
            \frac1n \Big(\sum_{i} -\log y_{i, c_i}
            + \sum_l \tfrac12 E[\pi_l]\, \lVert W_l \rVert^2 + \mathrm{KL}(\pi_l)\Big)

        over the n nodes of ``train_mask``. The weights with the smallest validation loss are kept.

        Args:
            graph: with ``x``, ``edge_index``, ``y``, ``train_mask`` and ``val_mask``; other labels
                are not read, so a class that occurs in neither mask has no output.
            layers: of the network. The cost is that of layers × blocks × links × hidden.
            hidden: width of those between.
            blocks: blocks of features with masks of their own.
            epochs: steps of the optimiser, at most.
            patience: stop after so many epochs without a better validation loss.
            learning_rate: of Adam.
            seed: of the first weights and of all masks; torch's global generator is left alone.
        """
        _check_options(layers, hidden, blocks, epochs)
        check_lesson(graph)  # the network is made to fit: only the graph can err
        draw = torch.Generator().manual_seed(seed)
        widths = graph.x.size(1), *[hidden] * (layers - 1), _classes(graph)
        scale = graph.x.square().mean().rsqrt().nan_to_num(posinf=1.0)
        network = DropConnectNetwork(widths, blocks=blocks, scale=scale, generator=draw)
        lesson = DropConnectLesson(
            network.to(graph.x), graph, MaskedLinks(graph, blocks=blocks), draw
        )
        epoch = lesson.train(epochs, patience, learning_rate)
        return cls(network.requires_grad_(False), epoch)

    def predict(self, graph: Data, *, samples: int = 100, seed: int = 0) -> Prediction:
        """Mean and variance over that many draws of the masks and of their chances.

        Raises:
            GraphError: the graph or its link probabilities cannot be right.
            ModelError: the network was trained on features of another kind.
        """
        _check_fit(self.network, graph)
        links = MaskedLinks(graph, blocks=self.network.blocks)
        draw = torch.Generator().manual_seed(seed)
        with torch.no_grad():
            messages = self.network.first_messages(graph.x)
            draws = (self.network(messages, links, draw, relaxed=False) for _ in range(samples))
            return from_draws(draws, method="drop-connect")


def _classes(graph: Data) -> int:
    return int(graph.y[graph.train_mask | graph.val_mask].max()) + 1


def _check_options(layers: int, hidden: int, blocks: int, epochs: int) -> None:
    if layers < 1 or epochs < 1 or not 1 <= blocks <= hidden:
        raise OptionError(
            f"layers={layers}, hidden={hidden}, blocks={blocks}, epochs={epochs}",
            "give all from 1 up, and no more blocks than hidden",
        )


def _check_fit(network: DropConnectNetwork, graph: Data) -> None:
    check_one_kind(graph)
    if graph.edge_index is None:
        raise GraphError("the graph has no edge_index", "Data(x=..., edge_index=...)")
    check_model(network, graph)
    refuse_scripted(network)
    if graph.x.size(1) != network.widths[0]:
        raise ModelError(
            f"the graph has {graph.x.size(1)} features, the network learned {network.widths[0]}",
            "predict on a graph of the same features, or fit anew",
        )


@dataclass(frozen=True, eq=False)
class DropConnectLesson:
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
        best, best_epoch, weights = math.inf, 0, self.network.state_dict()
        for epoch in range(1, epochs + 1):
            optimiser.zero_grad()
            self.loss(min(1.0, epoch / WARM_UP)).backward()
            optimiser.step()
            if epoch % LOOK_EVERY and epoch < epochs:
                continue
            loss = self.validation_loss()
            if loss < best:
                best, best_epoch, weights = loss, epoch, copy.deepcopy(self.network.state_dict())
            if epoch - best_epoch >= patience:
                break
        if not math.isfinite(best):
            raise ModelError(
                "the validation loss is not a number", "lower the learning rate: learning_rate=1e-3"
            )
        self.network.load_state_dict(weights)
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


class DropConnectNetwork(nn.Module):
    """Logits by layers of :class:`DropConnectLayer` with ReLU between them.

    Args:
        widths: features, widths of the hidden layers, classes.
        blocks: blocks of features that have masks of their own, in every layer.
        scale: features are multiplied by it, so that they are about 1 in size: masks make every
            layer's answer smaller, and small features would be lost after four of them.
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
            prior: α, of the chance that a link is kept.
        """
        layers = self._all
        sizes = [layer.keep.mean * layer.weight.square().sum() / 2 for layer in layers]
        return torch.stack(sizes + [layer.keep.divergence(prior) for layer in layers]).sum()

    @property
    def _all(self) -> list[DropConnectLayer]:
        return list(self.layers)  # type: ignore[arg-type]
