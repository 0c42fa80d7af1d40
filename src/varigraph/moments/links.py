"""Links that exist with a known probability."""

from __future__ import annotations

from typing import Literal, get_args

import torch
from torch import Tensor

from varigraph.errors import ModelError, OptionError

Reading = Literal["bernoulli", "weight"]


class LinkProbabilities:
    """The chance of every link, found by its two ends.

    Looking links up by their ends, not by their position, keeps this right for models that sort
    or drop links on the way, and for layers that add self-loops, which are certain.

    Args:
        edge_index: links as the data lists them, ``[2, edges]``.
        prob: chance of each, ``[edges]``.
        nodes: number of nodes.
        reading: ``"bernoulli"``, a coin that removes the message, or ``"weight"``, a factor on it.
    """

    def __init__(
        self,
        edge_index: Tensor,  # [2, edges]
        prob: Tensor,  # [edges]
        nodes: int,
        reading: Reading = "bernoulli",
    ) -> None:
        if reading not in get_args(Reading):
            raise OptionError(
                f"links={reading!r} is not a reading of an uncertain link",
                'links="bernoulli" (a coin per link) or links="weight" (Theorem 1 as printed)',
            )
        self.nodes, self.reading, self.used = nodes, reading, False
        self._keys, order = (edge_index[0] * nodes + edge_index[1]).sort()
        self._prob = prob[order]

    def of(self, source: Tensor, target: Tensor, nodes: int) -> Tensor:  # [edges] -> [edges]
        """Chance of each link ``source -> target``; self-loops that the data lacks are certain."""
        if nodes != self.nodes:
            raise ModelError(
                f"a layer works on {nodes} nodes, the link probabilities are for {self.nodes}",
                "leave edge_prob out, or pool nodes only after the last message-passing layer",
            )
        self.used = True
        keys = source * self.nodes + target
        place = torch.searchsorted(self._keys, keys).clamp_max(len(self._keys) - 1)
        known = self._keys[place] == keys
        if not bool((known | (source == target)).all()):
            first = int((~(known | (source == target))).nonzero()[0])
            raise ModelError(
                f"the model made the link {int(source[first])} -> {int(target[first])}, "
                "whose probability is not in data.edge_prob",
                "give every link that the model uses to the graph, with its probability",
            )
        return torch.where(known, self._prob[place], self._prob.new_ones(()))
