"""Deep ensembles (Lakshminarayanan et al., 2017): train several times, look at the scatter."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from torch import nn
from torch_geometric.data import Data

from varigraph.baselines.draws import from_draws
from varigraph.baselines.plain import plain_logits
from varigraph.errors import OptionError
from varigraph.prediction import Prediction
from varigraph.training import train

#: Ensembles of neighbouring seeds share no member as long as they are smaller than this.
SEEDS_PER_ENSEMBLE = 1000


@dataclass(frozen=True, eq=False)
class DeepEnsemble:
    r"""Mean and variance of the softmax over M networks that were trained apart.

    .. math::
        \bar y = \frac1M \sum_m \operatorname{softmax}(f_m(x)), \qquad
        v = \frac1M \sum_m \left(\operatorname{softmax}(f_m(x)) - \bar y\right)^2

    Every member answers in evaluation mode. https://arxiv.org/abs/1612.01474

    Args:
        models: trained networks that map ``(x, edge_index)`` to logits, at least two.
    """

    models: Sequence[nn.Module]

    def __post_init__(self) -> None:
        if len(self.models) < 2:
            raise OptionError(
                f"an ensemble of {len(self.models)} has no scatter", "give two networks or more"
            )

    @classmethod
    def fit(
        cls,
        build: Callable[[int], nn.Module],
        graph: Data,
        *,
        members: int = 5,
        seed: int = 0,
        **training: Any,
    ) -> DeepEnsemble:
        """Train the members one after the other, each from first weights and batches of its own.

        Args:
            build: an untrained network from a seed, as
                ``lambda seed: vg.paper_network(graph, seed=seed)``.
            graph: what :func:`varigraph.train` wants.
            members: how many.
            seed: member i gets the seed ``1000 * seed + i``.
            **training: options of :func:`varigraph.train`, such as ``epochs``.
        """
        if not 2 <= members <= SEEDS_PER_ENSEMBLE:
            raise OptionError(
                f"members={members} is no ensemble", f"members=5, from 2 to {SEEDS_PER_ENSEMBLE}"
            )
        models = []
        for number in range(members):
            own = SEEDS_PER_ENSEMBLE * seed + number
            models.append(build(own))
            train(models[-1], graph, seed=own, **training)
        return cls(models)

    def predict(self, graph: Data, *, samples: int = 100, seed: int = 0) -> Prediction:
        """The mean over the members; ``samples`` and ``seed`` have nothing to decide."""
        logits = (plain_logits(model, graph) for model in self.models)
        return from_draws(logits, method="deep-ensemble")
