"""Where the choices of a case come from: one number, or whoever wants to shrink them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import TypeVar

import numpy as np
import torch

T = TypeVar("T")
LARGEST_SEED = 2**31 - 1


class Choices(ABC):
    """A stream of decisions. The simplest option stands first: that is where shrinking leads."""

    @abstractmethod
    def integer(self, low: int, high: int) -> int:
        """A whole number from ``low`` to ``high``, both included."""

    def one_of(self, options: Sequence[T]) -> T:
        """One of several options; one that is listed twice is twice as likely."""
        return options[self.integer(0, len(options) - 1)]

    def happens(self, percent: int) -> bool:
        """Whether something rare happens."""
        return self.integer(0, 99) >= 100 - percent

    def generator(self) -> torch.Generator:
        """A source of numbers that no decision hangs on: features, weights, variances."""
        return torch.Generator().manual_seed(self.integer(0, LARGEST_SEED))


class FromSeed(Choices):
    """All choices follow from one number, on every machine the same."""

    def __init__(self, seed: int) -> None:
        self._stream = np.random.default_rng(seed)

    def integer(self, low: int, high: int) -> int:
        """A whole number from ``low`` to ``high``, both included."""
        return int(self._stream.integers(low, high, endpoint=True))
