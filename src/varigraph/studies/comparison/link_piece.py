"""The probabilities of a data set's links. No label enters them, so all seeds share them."""

from __future__ import annotations

import time
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from varigraph.data import load
from varigraph.studies.comparison.options import Options
from varigraph.studies.comparison.pieces import Piece
from varigraph.studies.link_source import LinkSource
from varigraph.studies.pieces import Arrays


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
        """Where it is kept, without suffix."""
        return f"links/{self.dataset}"

    def needs(self, options: Options) -> tuple[Piece, ...]:
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
