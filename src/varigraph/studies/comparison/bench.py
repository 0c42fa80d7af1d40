"""What a method finds when it is to be trained: the graph of a protocol, a seed and a recipe."""

from __future__ import annotations

import copy
from dataclasses import dataclass
from functools import cached_property

import torch
from torch_geometric.data import Data

from varigraph.data import add_noise
from varigraph.studies.comparison.link_piece import LinkPiece
from varigraph.studies.comparison.options import Options
from varigraph.studies.comparison.protocols import Protocol, graph_of
from varigraph.studies.comparison.recipes import Recipe, recipe


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
