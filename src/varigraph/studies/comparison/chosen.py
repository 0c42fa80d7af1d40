"""The network that knows the noise: one for each data set, chosen on validation nodes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor, nn
from torch_geometric.data import Data
from torch_geometric.nn import GCN, GraphSAGE

from varigraph.moments.sparse import Sparse
from varigraph.training import train
from varigraph.training.lesson import Noise
from varigraph.training.networks import EncodedSage, own_randomness

Network = Literal["sage", "gcn", "encoded-sage"]
HIDDEN, DROPOUT = 64, 0.5
PATIENCE = 60


@dataclass(frozen=True)
class Chosen:
    """A network and how it is trained; ``benchmarks/networks.py`` compares such choices.

    Args:
        network: two GraphSAGE layers, two GCN layers, or GraphSAGE behind a dense layer.
        weight_decay: L2 penalty on all weights.
        noise: how the noise enters the training.
        learning_rate: of Adam.
        epochs: at most so many steps, each on the whole graph.
    """

    network: Network
    weight_decay: float
    noise: Noise
    learning_rate: float = 0.01
    epochs: int = 200

    def __str__(self) -> str:
        return (
            f"{self.network} with {HIDDEN} hidden numbers, dropout {DROPOUT:g}, weight decay "
            f"{self.weight_decay:g}, learning rate {self.learning_rate:g}, at most {self.epochs} "
            f'epochs, noise="{self.noise}"'
        )

    def built(self, graph: Data, *, seed: int) -> nn.Module:
        """The network, untrained.

        Args:
            graph: its ``x`` gives the number of features, its ``y`` the number of classes.
            seed: of the first weights; torch's global generator is left alone.
        """
        features, classes = graph.num_features, int(graph.y.max()) + 1
        with own_randomness(seed):
            if self.network == "encoded-sage":
                return EncodedSage(features, classes, hidden=HIDDEN, dropout=DROPOUT)
            kind = GraphSAGE if self.network == "sage" else GCN
            network: nn.Module = kind(features, HIDDEN, 2, classes, dropout=DROPOUT)
            return network

    def trained(self, graph: Data, *, seed: int, epochs: int | None = None) -> nn.Module:
        """The network, trained on whole graphs until the validation loss rests.

        Args:
            graph: clean features, with the variance ``x_var`` of the noise to come.
            seed: of the first weights and the training.
            epochs: other than its own number of them.
        """
        model = self.built(graph, seed=seed).to(graph.x.device)
        train(
            model if self.noise == "propagate" else _OnOneGraph(model, graph),
            graph,
            noise=self.noise,
            epochs=epochs or self.epochs,
            batch_size=None,
            learning_rate=self.learning_rate,
            weight_decay=self.weight_decay,
            patience=PATIENCE,
            seed=seed,
        )
        return model


class _OnOneGraph(nn.Module):
    """A network that takes its links as a sparse matrix: the same sums, several times faster."""

    def __init__(self, model: nn.Module, graph: Data) -> None:
        super().__init__()
        self.model = model
        sources, targets = graph.edge_index[:, graph.edge_index[1].argsort(stable=True)]
        ones = torch.ones(len(sources), device=sources.device)
        shape = (graph.num_nodes, graph.num_nodes)
        self.adjacency = Sparse(targets, sources, ones, shape).csr

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:  # [nodes, features]
        logits: Tensor = self.model(x, self.adjacency)
        return logits


CHOSEN: dict[str, Chosen] = {
    "cora": Chosen("gcn", 5e-5, "propagate"),
    "computers": Chosen("encoded-sage", 5e-5, "inject", learning_rate=0.005),
    "pubmed": Chosen("encoded-sage", 5e-5, "inject", epochs=300),
}
