"""Values of large graphs: a block of nodes at a time, so that no layer is held whole."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial, wraps
from typing import Any, TypeVar, cast

from torch import Tensor

from varigraph.errors import TooLargeError
from varigraph.moments.gaussian import Gaussian

#: Blocks start at multiples of this, where random numbers can be drawn from any place on.
ALIGNED = 32

Make = Callable[[slice], Gaussian]
RuleOfNodes = TypeVar("RuleOfNodes", bound=Callable[..., Gaussian])


class ByRows(Gaussian):
    """A value ``[nodes, features]`` whose rows are computed when they are asked for.

    Whoever asks for ``mean`` or ``var`` gets them whole. Rules that look at every node by itself
    (:func:`by_node`) and sums over neighbours ask for blocks of rows instead, so that a network
    needs memory for what its sums read, and for a block of everything else.

    Args:
        make: computes a block of rows.
        nodes: number of rows.
        step: number of rows in a block.
        room: bytes up to which a value that is needed twice is kept whole.
        limit: bytes up to which a value that must be whole may be.
        whole: the value, where it is known already.
    """

    make: Make
    nodes: int
    step: int
    room: int
    limit: float
    whole: Gaussian | None
    like: Tensor

    def __init__(
        self,
        make: Make,
        nodes: int,
        step: int,
        room: int,
        *,
        limit: float = math.inf,
        whole: Gaussian | None = None,
    ) -> None:
        like = make(slice(0, 1)).mean
        step = max(ALIGNED, step // ALIGNED * ALIGNED)
        given = {"make": make, "nodes": nodes, "step": step, "room": room, "limit": limit}
        self.__dict__.update(given, whole=whole, like=like)

    @classmethod
    def of(cls, value: Gaussian, step: int, room: int, *, limit: float = math.inf) -> ByRows:
        """A value that is known, to be worked on in blocks."""
        make = partial(some_rows, value)
        return cls(make, len(value), step, room, limit=limit, whole=value)

    def _tensor(self) -> Tensor:
        return self.like.expand(self.nodes, *self.like.shape[1:])

    @property
    def known(self) -> Gaussian:
        """The value itself: computed once, block by block."""
        if self.whole is None:
            self._refuse_beyond_limit()
            self._compute()
        whole: Gaussian = self.__dict__["whole"]
        return whole

    def _compute(self) -> None:
        mean, var = (self.like.new_empty(self._tensor().shape) for _ in range(2))
        for first in range(0, self.nodes, self.step):
            rows = slice(first, min(first + self.step, self.nodes))
            block = self.make(rows)
            mean[rows], var[rows] = block.mean, block.var
        self.__dict__["whole"] = Gaussian(mean, var)

    def settle(self) -> None:
        """Compute the value once and keep it, where there is room: it will be needed twice."""
        if self.whole is None and self._bytes <= self.room:
            self._compute()

    @property
    def _bytes(self) -> int:
        return 2 * self._tensor().numel() * self.like.element_size()

    def _refuse_beyond_limit(self) -> None:
        if self._bytes > self.limit:
            need, width = math.ceil(self._bytes / 2**20), self.like.shape[1:].numel()
            raise TooLargeError(
                f"a sum over neighbours reads {width} numbers of {self.nodes:,} nodes, {need:,} "
                f"MiB, and the memory leaves {self.limit / 2**20:,.0f} MiB for that",
                "give more memory=",
            )

    @property
    def mean(self) -> Tensor:
        """Expected values of all nodes."""
        return self.known.mean

    @property
    def var(self) -> Tensor:
        """Variances of all nodes."""
        return self.known.var

    def rows(self, rows: slice) -> Gaussian:
        """Some rows of the value."""
        return self.make(rows) if self.whole is None else some_rows(self.whole, rows)

    def then(self, make: Make) -> ByRows:
        """A value with the same nodes, of which ``make`` computes some."""
        return ByRows(make, self.nodes, self.step, self.room, limit=self.limit)


def some_rows(value: Gaussian, rows: slice) -> Gaussian:
    """Some rows of a value that is known."""
    return Gaussian(value.mean[rows], value.var[rows])


@dataclass(frozen=True, eq=False)
class PerNode:
    """A tensor with a row for every node, said to be one: blocks of it go with blocks of a value.

    Args:
        tensor: ``[nodes, ...]``.
    """

    tensor: Tensor


def by_node(rule: RuleOfNodes) -> RuleOfNodes:
    """A rule that looks at every node by itself: of a value by rows it makes a value by rows."""

    @wraps(rule)
    def blockwise(*args: Any, **kwargs: Any) -> Gaussian:
        tall = [value for value in args if isinstance(value, ByRows)]
        if not tall or _by_node_number([*args, *kwargs.values()], len(tall[0])):
            return rule(*(_all(value) for value in args), **kwargs)
        return tall[0].then(lambda rows: rule(*(_some(v, rows) for v in args), **kwargs))

    return cast(RuleOfNodes, blockwise)


def _all(value: Any) -> Any:
    return value.tensor if isinstance(value, PerNode) else value


def _some(value: Any, rows: slice) -> Any:
    if isinstance(value, PerNode):
        return value.tensor[rows]
    return value.rows(rows) if isinstance(value, ByRows) else value


def _by_node_number(values: list[Any], nodes: int) -> bool:
    """Whether something else has one row for every node, so that blocks would not fit it."""
    others = [v for v in values if isinstance(v, (Tensor, Gaussian)) and not isinstance(v, ByRows)]
    return any(value.dim() > 0 and len(value) == nodes for value in others)
