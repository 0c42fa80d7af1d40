"""How close the variances of a contender come to brute force."""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any

import torch
from numpy.typing import NDArray
from torch import nn
from torch_geometric.data import Data

from varigraph.prediction.predict import ask
from varigraph.prediction.question import Source
from varigraph.prediction.sampled.method import Sample, sample
from varigraph.quantify.fidelity import Ratio, not_zero

#: Draws of brute force; a variance is then known to 4.5 %, a median over many far better.
DRAWS = 1000


class Truth:
    """Brute force on test nodes, once for each set of sources, as :func:`varigraph.audit` has it.

    Args:
        model: the network.
        graph: with noise in its features, and a ``test_mask``.
        memory: bound.
        seed: of the contenders; brute force draws with the next one, independently.
        draws: of brute force.
    """

    def __init__(
        self, model: nn.Module, graph: Data, *, memory: str, seed: int, draws: int = DRAWS
    ) -> None:
        self._model, self._graph, self._memory = model, graph, memory
        self._seed, self._draws = seed + 1, draws
        self._drawn = lru_cache(self._draw)

    def fidelity(self, var: NDArray[Any], sources: tuple[Source, ...]) -> float | None:
        """Median ratio of the variances of logits to those of brute force.

        Args:
            var: of the logits of all nodes, ``[nodes, classes]``.
            sources: that it is due to.
        """
        truth = self._drawn(sources).logits
        kept = not_zero(truth.total.value, truth.mean.value)
        tested = torch.from_numpy(var).to(kept.device)[self._graph.test_mask]
        median = Ratio.of(tested, truth.total, kept).median
        return None if math.isnan(median) else median

    def _draw(self, sources: tuple[Source, ...]) -> Sample:
        question = ask(
            self._model,
            self._graph,
            sources=sources,
            samples=self._draws,
            seed=self._seed,
            nodes=self._graph.test_mask,
            memory=self._memory,
        )
        return sample(question)
