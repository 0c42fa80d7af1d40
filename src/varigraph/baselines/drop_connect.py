"""Graph DropConnect (Hasanzadeh et al., 2020): links are dropped, as often as was learned."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch_geometric.data import Data

from varigraph.baselines.draws import from_draws
from varigraph.baselines.drop_connect_lesson import Lesson
from varigraph.baselines.drop_connect_links import MaskedLinks
from varigraph.baselines.drop_connect_network import DropConnectNetwork
from varigraph.data import check_graph
from varigraph.errors import GraphError, ModelError, OptionError
from varigraph.prediction import Prediction
from varigraph.prediction.checks import check_model
from varigraph.training.train import check_lesson


@dataclass(frozen=True, eq=False)
class DropConnect:
    r"""A graph network that drops links at random, and has learned how often.

    .. math::
        \bar y = \frac1T \sum_t \operatorname{softmax}(f(x; z_t)), \qquad
        z_t \sim \mathrm{Bernoulli}(\pi_t), \qquad \pi_t \sim \mathrm{Kumaraswamy}(a, b)

    with a, b for every layer and a mask for every link and block of features. :math:`\pi` is the
    chance of a link to be kept, in the masks, in the prior and in the penalty of the weights alike.
    Kept messages are not scaled up, so only draws can answer, never their mean.
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
        lesson = Lesson(network.to(graph.x), graph, MaskedLinks(graph, blocks=blocks), draw)
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
    check_graph(graph)
    if graph.edge_index is None:
        raise GraphError("the graph has no edge_index", "Data(x=..., edge_index=...)")
    check_model(network, graph)
    if graph.x.size(1) != network.widths[0]:
        raise ModelError(
            f"the graph has {graph.x.size(1)} features, the network learned {network.widths[0]}",
            "predict on a graph of the same features, or fit anew",
        )
