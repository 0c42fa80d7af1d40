"""What every baseline can be asked: a prediction for the nodes of a graph."""

from __future__ import annotations

from typing import Protocol

from torch_geometric.data import Data

from varigraph.prediction import Prediction


class Baseline(Protocol):
    """A trained method that gives error bars.

    What an input is uncertain about is no business of a baseline: ``x_var`` is not looked at, and
    ``edge_prob`` weighs the messages as it did in training.
    """

    def predict(self, graph: Data, *, samples: int = 100, seed: int = 0) -> Prediction:
        """Mean and variance of the class probabilities of every node.

        Args:
            graph: with ``x`` and ``edge_index``; labels are not read.
            samples: number of draws. Methods that draw nothing do without.
            seed: of the draws; torch's global generator is left alone.
        """
