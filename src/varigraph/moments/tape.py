"""A record of how each value of a pass responds to those before it, to first order."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from torch import Tensor

from varigraph.moments.gaussian import Gaussian
from varigraph.moments.operators import Operator


@dataclass(frozen=True, eq=False)
class Entry:
    """One value, and how it responds to its parents."""

    value: Gaussian
    parents: tuple[tuple[Gaussian, Operator], ...]


@dataclass(frozen=True, eq=False)
class Noise:
    """A place where a source adds noise of its own, independent of all before it.

    Args:
        value: what leaves the place.
        added: the variance that it adds, ``[nodes, features]``, or the covariance of each node,
            ``[nodes, features, features]``.
        source: name of the source.
    """

    value: Gaussian
    added: Tensor
    source: str


@dataclass(frozen=True, eq=False)
class Bend:
    r"""A place where the network is not linear: :math:`y \approx E[y] + g\,x + \frac{c}{2} x^2`."""

    value: Gaussian
    before: Gaussian
    curvature: Tensor  # c, [nodes, features]


@dataclass
class Tape:
    """All values of a pass in the order in which they were computed, known by their numbers."""

    entries: list[Entry] = field(default_factory=list)
    noises: list[Noise] = field(default_factory=list)
    bends: list[Bend] = field(default_factory=list)
    unknown: dict[int, str] = field(default_factory=dict)
    _known: set[int] = field(default_factory=set)

    def record(self, value: Gaussian, *parents: tuple[Gaussian, Operator]) -> None:
        """Note how a value responds to its parents."""
        self.entries.append(Entry(value, parents))
        self._known.add(value.number)

    def knows(self, value: Gaussian) -> bool:
        """Whether the responses of a value are on record."""
        return value.number in self._known and value.number not in self.unknown

    def maker_of(self, value: Gaussian) -> str:
        """The function that made a value for which nobody recorded a response."""
        return f"{self.unknown.get(value.number, 'a step of the model')}()"

    def note(self, value: Any, name: str) -> None:
        """Note by what a value was made for which nobody recorded a response."""
        if isinstance(value, Gaussian) and value.number not in self._known:
            self._known.add(value.number)
            self.unknown[value.number] = name
