"""The paper's network, trained once for each protocol, data set and seed."""

from __future__ import annotations

import time
from dataclasses import dataclass

import torch
from torch import Tensor

from varigraph.studies.comparison.bench import Bench
from varigraph.studies.comparison.link_piece import LinkPiece
from varigraph.studies.comparison.options import Options
from varigraph.studies.comparison.pieces import Piece
from varigraph.studies.comparison.protocols import Protocol
from varigraph.training import PaperNetwork, paper_network, train


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
        """Where it is kept, without suffix."""
        return f"networks/{self.protocol}/{self.dataset}/seed-{self.seed}"

    def needs(self, options: Options) -> tuple[Piece, ...]:
        """The probabilities of links: they weigh the messages."""
        return (LinkPiece(self.dataset),) if options.links is not None else ()

    def finished(self, options: Options) -> bool:
        """Whether there are weights to trust."""
        return SECONDS in (self._read(options) or {})

    def make(self, options: Options) -> None:
        """Train the network."""
        bench = Bench(options, self.protocol, self.dataset, self.seed)
        model = paper_network(bench.graph, seed=self.seed)
        start = time.process_time()
        train(model, bench.graph, seed=self.seed, **bench.recipe.options)
        seconds = torch.tensor(time.process_time() - start, dtype=torch.float64)
        options.pieces.write_weights(self._file, {**model.state_dict(), SECONDS: seconds})

    def seconds(self, options: Options) -> float:
        """How long the training took."""
        return float((self._read(options) or {})[SECONDS])

    def _read(self, options: Options) -> dict[str, Tensor] | None:
        return options.pieces.read_weights(self._file)

    @property
    def _file(self) -> str:
        return f"{self.name}.pt"


#: An entry beside the weights, so that there is one file, whole or absent.
SECONDS = "training seconds"


def trained_network(bench: Bench) -> PaperNetwork:
    """The paper's network of a bench, as it was trained for all methods that share it.

    Args:
        bench: whose :class:`NetworkPiece` is finished.
    """
    piece = NetworkPiece(bench.protocol, bench.dataset, bench.seed)
    state = dict(piece._read(bench.options) or {})
    state.pop(SECONDS)
    model = paper_network(bench.graph, seed=bench.seed)
    model.load_state_dict(state)
    return model.eval()
