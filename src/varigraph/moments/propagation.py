"""What a rule may ask about the pass it runs in: link probabilities, dropout, work already done."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any

from varigraph.errors import ModelError
from varigraph.moments.gaussian import Gaussian
from varigraph.moments.links import LinkProbabilities


def refuse_dropout(x: Gaussian, rate: float) -> Gaussian:
    """Dropout outside a prediction: nobody said which masks to draw."""
    raise ModelError(
        f"dropout with rate {rate} is on, but no masks are drawn here",
        "call vg.predict(model, data, samples=100), or model.eval() first",
    )


@dataclass
class Prefix:
    """Results of the steps before the first dropout: the same for every mask, computed once."""

    results: list[Any] = field(default_factory=list)
    open: bool = True

    def record(self, compute: Callable[[], Any]) -> Any:
        """Compute a step, and keep its result while no dropout has been met."""
        result = compute()
        if self.open:
            self.results.append(result)
        return result

    def replay(self) -> Callable[[Callable[[], Any]], Any]:
        """A fresh run through the same steps that computes only those after the prefix."""
        kept = iter(self.results)

        def step(compute: Callable[[], Any]) -> Any:
            result = next(kept, None)
            return compute() if result is None else result

        return step


@dataclass
class Propagation:
    """One pass of Gaussians through a model.

    Args:
        links: probabilities of the links, where the graph has them.
        dropout: what to do with a value that meets dropout of a given rate.
        step: runs one rule called from the model's own code.
        prepared: adjacency matrices that were built in an earlier pass, by what they came from.
    """

    links: LinkProbabilities | None = None
    dropout: Callable[[Gaussian, float], Gaussian] = refuse_dropout
    step: Callable[[Callable[[], Any]], Any] = lambda compute: compute()
    prepared: dict[Hashable, Any] = field(default_factory=dict)

    def prepare(self, build: Callable[[], Any], *origin: Any) -> Any:
        """What ``build`` returns, built once for every ``origin``."""
        key = tuple(part if isinstance(part, (str, int, float)) else id(part) for part in origin)
        if key not in self.prepared:
            # The origin is kept with the result: an id is unique only while its object lives.
            self.prepared[key] = (build(), origin)
        return self.prepared[key][0]


_current: ContextVar[Propagation] = ContextVar("propagation")


def current() -> Propagation:
    """The pass that is running, or an empty one."""
    return _current.get(Propagation())


@contextmanager
def propagating(propagation: Propagation) -> Iterator[Propagation]:
    """Make ``propagation`` the current pass."""
    token = _current.set(propagation)
    try:
        yield propagation
    finally:
        _current.reset(token)
