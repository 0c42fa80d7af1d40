"""Brute force: the network as it is, on many draws of its features or of its links.

Noise is added to features; a link that is not there is a column that is taken out of
``edge_index``, with all that belongs to it. Nothing of the package is imported here.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from copy import deepcopy
from dataclasses import dataclass
from functools import cache
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F
from torch.overrides import TorchFunctionMode

from corpus.copies import drawn_coins, drawn_features, graph_of_copies
from corpus.registry import Network

#: Draws that are run side by side, and one by one where a network looks at the whole graph.
DRAWS, DRAWS_ALONE = 500, 300
#: How many times as many are taken where these leave open whether an answer is right.
TO_BE_SURE = 5
#: Copies of a graph in one run.
AT_ONCE = 100
#: Parts that draws are divided into, to see how much figures differ between them.
GROUPS = 20
SOFTMAX = (F.softmax, torch.softmax, Tensor.softmax,
           F.log_softmax, torch.log_softmax, Tensor.log_softmax)  # fmt: skip


@dataclass(frozen=True, eq=False)
class Truth:
    """What many draws show.

    Args:
        logits: the answers, before a last softmax, ``[draws, rows, outputs]``.
    """

    logits: Tensor

    @property
    def var(self) -> Tensor:  # [rows, outputs]
        """Variance of every number."""
        return self.logits.var(0)

    def without_each_group(self) -> Iterator[Tensor]:  # [rows, outputs] each
        """The variance from all draws but those of one group, in turn."""
        groups = (self.logits - self.logits.mean(0)).unflatten(0, (GROUPS, -1))
        sums, squares = groups.sum(1), groups.square().sum(1)
        count = len(self.logits) - groups.shape[1]
        for some, some_squares in zip(sums.sum(0) - sums, squares.sum(0) - squares, strict=True):
            yield (some_squares - some.square() / count) / (count - 1)


@cache
def truth(network: Network, source: str, times: int = 1) -> Truth:
    """Answers to draws of one source, everything else as it is; so many times as many draws."""
    model, data = network.trained(), network.data
    count, at_once = (DRAWS_ALONE, 1) if network.alone else (DRAWS, AT_ONCE)
    count *= times
    features = drawn_features(data, count, noisy=source == "features")
    coins = drawn_coins(data, count, certain=source != "links")
    parts = []
    for first in range(0, count, at_once):
        here = slice(first, first + at_once)
        x, union = graph_of_copies(data, features, coins, here)
        # A copy for each run: some networks remember what they saw first.
        parts.append(plain_logits(network, deepcopy(model), x, union, copies=at_once))
    return Truth(torch.cat(parts).double())


def plain_logits(
    network: Network, model: Any, x: Any, data: Any, copies: int = 1
) -> Tensor:  # -> [copies, rows, outputs]
    """What a network answers, before a last softmax."""
    with torch.no_grad(), LastSoftmax() as last:
        out = last.before(network.answer(model, x, data))
    return out.reshape(copies, -1, out.shape[1] if out.dim() > 1 else 1)


class LastSoftmax(TorchFunctionMode):
    """Remembers what stood before the softmax that was called last."""

    def __torch_function__(
        self, func: Any, types: Any, args: Sequence[Any] = (), kwargs: Any = None
    ) -> Any:
        """Let every function do what it does."""
        out = func(*args, **(kwargs or {}))
        if func in SOFTMAX:
            self.entered, self.left = args[0], out
        return out

    def before(self, out: Tensor) -> Tensor:
        """What the model's answer was before its softmax, if that was the last step."""
        return self.entered if getattr(self, "left", None) is out else out
