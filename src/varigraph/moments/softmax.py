"""Softmax as the last step of a network: its logits are kept for what integrates over them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from varigraph.errors import MissingRuleError
from varigraph.moments.gaussian import Gaussian
from varigraph.moments.registry import implements


class Logits(Gaussian):
    """The result of the last softmax of a network, known by what stood before it.

    A softmax forgets a common shift of its logits, so ``log_softmax`` as a last step changes no
    probability: the logits are kept, and integrated over once all of their moments are known.

    Args:
        before: the logits, with whatever is on record about them.
    """

    before: Gaussian

    def __init__(self, before: Gaussian) -> None:
        self.__dict__.update(before=before)

    @property
    def mean(self) -> Tensor:
        """Means of the logits."""
        return self.before.mean

    @property
    def var(self) -> Tensor:
        """Variances of the logits."""
        return self.before.var


LAST_STEP = "as the last step of a network; class probabilities are integrated over the logits"


@implements(F.log_softmax, torch.log_softmax, Tensor.log_softmax, exactness="exact",
            modules=[nn.LogSoftmax], note=LAST_STEP)  # fmt: skip
def log_softmax(x: Gaussian, dim: int | None = None, **_: Any) -> Logits:
    """The logits themselves: their softmax is the softmax of the log-softmax."""
    return _last(x, dim)


@implements(F.softmax, torch.softmax, Tensor.softmax, exactness="exact",
            modules=[nn.Softmax], note=LAST_STEP)  # fmt: skip
def softmax(x: Gaussian, dim: int | None = None, **_: Any) -> Logits:
    """The logits themselves: the softmax is integrated over them at the end of the pass."""
    return _last(x, dim)


def _last(x: Gaussian, dim: int | None) -> Logits:
    if dim not in (-1, x.mean.dim() - 1):
        raise MissingRuleError(
            f"softmax over dim={dim} of a {x.mean.dim()}-dimensional tensor has no rule",
            "the classes must be the last axis: softmax(x, dim=-1)",
        )
    return Logits(x)


def passes_logits(function: Callable[..., Any]) -> bool:
    """Whether a function may be applied to the result of a softmax: picking rows, no arithmetic."""
    return function in (Tensor.__getitem__, torch.index_select, Tensor.index_select)
