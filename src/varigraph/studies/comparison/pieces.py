"""Pieces of a comparison: each is a file that is made once, from pieces that are files too."""

from __future__ import annotations

import copy
import time
import typing
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from torch import Tensor
from torch_geometric.data import Data

from varigraph.data import add_noise, load
from varigraph.studies.comparison.protocols import Options, Protocol, Recipe, graph_of, recipe
from varigraph.studies.folder import Arrays
from varigraph.studies.links import LinkSource
from varigraph.training import PaperNetwork, paper_network, train


class Piece(typing.Protocol):
    """Something to make. It depends on its own description alone, never on what ran before it."""

    @property
    def name(self) -> str:
        """Where it is stored below the folder of the comparison, without suffix."""

    @property
    def kind(self) -> str:
        """What is made: pieces of one kind take about as long on the same data set."""

    @property
    def dataset(self) -> str:
        """The data set that it is about."""

    def prerequisites(self, options: Options) -> tuple[Piece, ...]:
        """The pieces that must be there first."""

    def finished(self, options: Options) -> bool:
        """Whether it is there and whole."""

    def make(self, options: Options) -> None:
        """Make it; whatever happens, its file is whole or absent."""

    def seconds(self, options: Options) -> float:
        """Processor time that it took, once it is finished."""


def unfinished(wanted: Iterable[Piece], options: Options) -> dict[str, Piece]:
    """What is still to be made, by name; what is needed comes before what needs it.

    Args:
        wanted: the pieces that count in the end.
        options: of the comparison.
    """
    found: dict[str, Piece] = {}
    for piece in wanted:
        if piece.name not in found and not piece.finished(options):
            found |= unfinished(piece.prerequisites(options), options)
            found[piece.name] = piece
    return found


@dataclass(frozen=True)
class LinkPiece:
    """``links/<dataset>.npz``, and beside it a folder with the folds that it is made of.

    Args:
        dataset: name of the data set.
    """

    dataset: str
    kind = "links"

    @property
    def name(self) -> str:
        """Where it is stored, without suffix."""
        return f"links/{self.dataset}"

    def prerequisites(self, options: Options) -> tuple[Piece, ...]:
        """Nothing."""
        return ()

    def finished(self, options: Options) -> bool:
        """Whether the file can be read."""
        return {"edge_prob", "seconds"} <= (self._read(options) or {}).keys()

    def make(self, options: Options) -> None:
        """Compute the probabilities; finished folds are used again."""
        start, graph = time.process_time(), load(self.dataset, root=options.root)
        likely = LinkSource.of(options.links, graph).applied(
            graph,
            self.dataset,
            seed=0,
            folder=options.folder / self.name,
            root=options.root,
            progress=lambda fraction, what: None,
        )
        seconds = np.array(time.process_time() - start)
        arrays = {"edge_prob": likely.edge_prob.numpy(), "seconds": seconds}
        options.pieces.write_arrays(self._file, arrays)

    def probabilities(self, options: Options) -> Tensor:  # [edges]
        """What was computed, in the order of ``edge_index``."""
        return torch.from_numpy((self._read(options) or {})["edge_prob"])

    def seconds(self, options: Options) -> float:
        """How long that took."""
        return float((self._read(options) or {})["seconds"])

    def _read(self, options: Options) -> Arrays | None:
        return options.pieces.read_arrays(self._file)

    @property
    def _file(self) -> str:
        return f"{self.name}.npz"


@dataclass(frozen=True)
class Bench:
    """The place where one method is trained and tested.

    Args:
        options: of the whole comparison.
        protocol: how nodes are divided, and what their features hold.
        dataset: name of the data set.
        seed: of the split, the noise, the training and the prediction.
    """

    options: Options
    protocol: Protocol
    dataset: str
    seed: int

    @cached_property
    def graph(self) -> Data:
        """Clean features, masks and, where links are uncertain, ``edge_prob``."""
        graph = graph_of(self.protocol, self.dataset, seed=self.seed, root=self.options.root)
        if self.options.links is not None:
            graph.edge_prob = LinkPiece(self.dataset).probabilities(self.options)
        return graph

    def seen_through(self, noise: float) -> Data:
        """The graph as it is observed: features with one draw of noise, the same for all methods.

        Args:
            noise: variance of the features, in per cent of their mean.
        """
        return add_noise(self.graph, percent=noise, seed=self.seed)

    def knowing(self, noise: float) -> Data:
        """The graph to train on for a method that knows the noise: clean, with its variance.

        Args:
            noise: variance of the features, in per cent of their mean.
        """
        known = copy.copy(self.graph)
        known.x_var = torch.as_tensor(self.seen_through(noise).x_var)
        return known

    @property
    def recipe(self) -> Recipe:
        """How networks are trained here."""
        return recipe(self.protocol, self.dataset, quick=self.options.quick)


#: An entry beside the weights, so that there is one file, whole or absent.
TRAINING_SECONDS = "training seconds"


@dataclass(frozen=True)
class NetworkPiece:
    """``networks/<protocol>/<dataset>/seed-<seed>.pt``: weights, and the seconds they took.

    Args:
        protocol: how nodes are divided, and what their features hold.
        dataset: name of the data set.
        seed: of the split, the first weights and the training.
    """

    protocol: Protocol
    dataset: str
    seed: int
    kind = "network"

    @property
    def name(self) -> str:
        """Where it is stored, without suffix."""
        return f"networks/{self.protocol}/{self.dataset}/seed-{self.seed}"

    def prerequisites(self, options: Options) -> tuple[Piece, ...]:
        """The probabilities of links, which weight the messages."""
        return (LinkPiece(self.dataset),) if options.links is not None else ()

    def finished(self, options: Options) -> bool:
        """Whether there are weights to trust."""
        return TRAINING_SECONDS in (self._read(options) or {})

    def make(self, options: Options) -> None:
        """Train the network."""
        bench = Bench(options, self.protocol, self.dataset, self.seed)
        model = paper_network(bench.graph, seed=self.seed)
        start = time.process_time()
        train(model, bench.graph, seed=self.seed, **bench.recipe.options)
        seconds = torch.tensor(time.process_time() - start, dtype=torch.float64)
        options.pieces.write_weights(self._file, {**model.state_dict(), TRAINING_SECONDS: seconds})

    def seconds(self, options: Options) -> float:
        """How long the training took."""
        return float((self._read(options) or {})[TRAINING_SECONDS])

    def _read(self, options: Options) -> dict[str, Tensor] | None:
        return options.pieces.read_weights(self._file)

    @property
    def _file(self) -> str:
        return f"{self.name}.pt"


def trained_network(bench: Bench) -> PaperNetwork:
    """The paper's network of a bench, as it was trained for all methods that share it.

    Args:
        bench: whose :class:`NetworkPiece` is finished.
    """
    piece = NetworkPiece(bench.protocol, bench.dataset, bench.seed)
    state = dict(piece._read(bench.options) or {})
    state.pop(TRAINING_SECONDS)
    model = paper_network(bench.graph, seed=bench.seed)
    model.load_state_dict(state)
    return model.eval()
