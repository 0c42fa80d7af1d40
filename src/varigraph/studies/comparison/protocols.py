"""What decides the numbers of a comparison: options, protocols and how networks are trained."""

from __future__ import annotations

import copy
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch_geometric.data import Data
from torch_geometric.nn import GCN, GraphSAGE

from varigraph.data import load
from varigraph.data.graphs import Split
from varigraph.errors import OptionError
from varigraph.links.methods import RECIPES
from varigraph.sparse import Sparse
from varigraph.studies.config import NOISE, versions
from varigraph.studies.folder import Pieces
from varigraph.training import train
from varigraph.training.lesson import Noise
from varigraph.training.networks import EncodedSage, own_randomness


@dataclass(frozen=True)
class Options:
    """Everything that changes a number is here; which cells are wanted is not.

    Args:
        folder: where everything is written.
        samples: draws per prediction, for methods that draw.
        links: the method that computes the probabilities of links; None takes all as certain.
        quick: train for a few epochs only, to see that everything works.
        root: folder that holds the data sets.
    """

    folder: Path
    samples: int = 100
    links: str | None = "hadamard"
    quick: bool = False
    root: Path | None = None

    def __post_init__(self) -> None:
        if self.samples < 2:
            raise OptionError(f"samples is {self.samples}", "draw at least twice: samples=100")
        if self.links is not None and self.links not in RECIPES:
            raise OptionError(
                f"links is {self.links!r}", f"choose one of {', '.join(RECIPES)}, or None"
            )

    @property
    def pieces(self) -> Pieces:
        """The folder with all that is finished in it."""
        return Pieces(self.folder, self.record())

    def record(self) -> dict[str, Any]:
        """The options and the versions of what computes them, as a JSON object."""
        return {
            "study": "paper",
            "samples": self.samples,
            "links": self.links,
            "quick": self.quick,
            "noise": list(NOISE),
            "versions": versions(),
        }


Protocol = Literal["held-out", "paper"]
#: Nodes of a class for training, validation and testing in the paper's code.
PER_CLASS = (300, 30, 100)


def graph_of(
    protocol: Protocol, dataset: str, *, seed: int = 0, root: str | Path | None = None
) -> Data:
    """A data set with the split of a protocol.

    ``held-out``: 70 % of the nodes for training, 10 % for validation, 20 % for testing. ``paper``:
    300, 30 and 100 nodes of each class, and on Cora the class itself among the features.

    Args:
        protocol: one of the two.
        dataset: its name.
        seed: of the split.
        root: folder that holds the data sets.
    """
    graph = load(dataset, root=root, seed=seed)
    if protocol == "held-out":
        return graph
    split = class_split(graph.y, seed=seed)
    graph.train_mask, graph.val_mask, graph.test_mask = split.train, split.val, split.test
    return with_leaked_labels(graph) if dataset == "cora" else graph


def class_split(labels: Tensor, *, seed: int = 0) -> Split:  # [nodes]
    """300, 30 and 100 random nodes of each class; the other nodes are in no mask.

    Of a class with fewer nodes, 80 % are for training, half of the rest for validation, and what is
    left for testing.

    Args:
        labels: classes of the nodes, integers from 0.
        seed: the same seed gives the same split.
    """
    draw = torch.Generator().manual_seed(seed)
    masks = torch.zeros(3, len(labels), dtype=torch.bool)
    for label in labels.unique():
        nodes = (labels == label).nonzero().flatten()
        shuffled = nodes[torch.randperm(len(nodes), generator=draw)]
        for mask, chosen in zip(masks, shuffled.split(_sizes(len(nodes))), strict=False):
            mask[chosen] = True
    return Split(*masks)


def _sizes(nodes: int) -> list[int]:
    if nodes >= sum(PER_CLASS):
        return [*PER_CLASS, nodes - sum(PER_CLASS)]
    train = nodes * 8 // 10
    val = (nodes - train) // 2
    return [train, val, nodes - train - val]


def with_leaked_labels(graph: Data) -> Data:
    """A copy in which the class of each node is one more word of its text.

    This is the leak in the paper's Cora: with it a network has little left to learn. Rows sum to 1
    again afterwards.

    Args:
        graph: with words as features, each present or not, and labels.
    """
    words = torch.cat([(graph.x > 0).to(graph.x), F.one_hot(graph.y).to(graph.x)], dim=1)
    leaked = copy.copy(graph)
    leaked.x = words / words.sum(dim=1, keepdim=True)
    return leaked


@dataclass(frozen=True)
class Recipe:
    """Options of :func:`varigraph.train`.

    Args:
        epochs: passes over the training nodes.
        batch_size: seed nodes per step.
        learning_rate: of Adam.
    """

    epochs: int
    batch_size: int
    learning_rate: float

    def __str__(self) -> str:
        return (
            f"{self.epochs} epochs, batches of {self.batch_size}, "
            f"learning rate {self.learning_rate:g}"
        )

    @property
    def options(self) -> dict[str, Any]:
        """As keywords."""
        return asdict(self)


#: The paper's own recipe.
PAPER = Recipe(epochs=50, batch_size=50, learning_rate=1e-3)
#: Where 70 % of a large graph is for training, the validation loss is best after five to seven.
MANY_NODES = Recipe(epochs=10, batch_size=50, learning_rate=1e-3)
QUICK = Recipe(epochs=3, batch_size=50, learning_rate=5e-3)


def recipe(protocol: Protocol, dataset: str, *, quick: bool = False) -> Recipe:
    """The recipe for a data set.

    Args:
        protocol: decides how many training nodes there are.
        dataset: its name.
        quick: few epochs, to see that everything works.

    Example:
        >>> print(recipe("held-out", "cora"))
        50 epochs, batches of 50, learning rate 0.001
    """
    if quick:
        return QUICK
    return PAPER if protocol == "paper" or dataset == "cora" else MANY_NODES


Network = Literal["sage", "gcn", "encoded-sage"]
HIDDEN, DROPOUT = 64, 0.5
PATIENCE = 60


@dataclass(frozen=True)
class Chosen:
    """A network and how it is trained; ``benchmarks/networks.py`` compares such choices.

    Args:
        network: two GraphSAGE layers, two GCN layers, or GraphSAGE after a dense layer.
        weight_decay: L2 penalty on all weights.
        noise: how the noise enters the training.
        learning_rate: of Adam.
        epochs: at most this many steps, each on the whole graph.
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
        """The network, trained on whole graphs until the validation loss stops falling.

        Args:
            graph: clean features, with the variance ``x_var`` of the noise to come.
            seed: of the first weights and the training.
            epochs: instead of its own number of them.
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
