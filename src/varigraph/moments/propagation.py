"""What a rule may ask about the pass it runs in: link probabilities, dropout, work already done."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any, TypeVar

import torch
from torch import Tensor, nn

from varigraph.errors import ModelError
from varigraph.moments.affine import Affine
from varigraph.moments.gaussian import Gaussian, settled
from varigraph.moments.links import LinkProbabilities
from varigraph.moments.registry import Rule
from varigraph.moments.tape import Noise, Operator, Scale, Tape


def refuse_dropout(x: Gaussian, rate: float) -> Gaussian:
    """Dropout outside a prediction: nobody said which masks to draw."""
    raise ModelError(
        f"dropout with rate {rate} is on, but no masks are drawn here",
        "call vg.predict(model, data, samples=100), or model.eval() first",
    )


@dataclass
class Propagation:
    """One pass of Gaussians through a model.

    Args:
        links: probabilities of the links, where the graph has them.
        dropout: what to do with a value that meets dropout of a given rate.
        step: runs one rule called from the model's own code.
        prepared: adjacency matrices that were built in an earlier pass, by what they came from.
        tape: where responses are recorded, for methods that need them.
        noises: where sources note the places at which they add noise of their own.
        approximate: names of rules that were used and are only approximate.
        as_written: kinds of layers without a rule that were followed as they are written.
        overwrite: whether rules may write over tensors that they have made themselves: nothing is
            recorded or learned, and one mask is looked at.
        masked: whether dropout acts, although the model is in evaluation mode.
        followed: layers whose rule did not fit, here or in an earlier pass of the same question.
            A rule may refuse what only some sources bring, and a pass of fewer sources is compared
            with the whole place by place: all of them go the same way.
    """

    links: LinkProbabilities | None = None
    dropout: Callable[[Gaussian, float], Gaussian] = refuse_dropout
    step: Callable[[Callable[[], Any]], Any] = lambda compute: compute()
    prepared: dict[Hashable, Any] = field(default_factory=dict)
    tape: Tape | None = None
    noises: list[Noise] = field(default_factory=list)
    approximate: dict[str, None] = field(default_factory=dict)
    as_written: dict[str, None] = field(default_factory=dict)
    overwrite: bool = False
    masked: bool = False
    followed: set[nn.Module] = field(default_factory=set)

    def note(self, result: Any, rule: Rule) -> None:
        """Tell what a value was made by: for the case that no response was recorded, or a poor one.

        Rules of this package say so themselves, since they call each other.
        """
        if rule.exactness == "approximate" and not rule.shipped:
            self.approximates(rule.names[0])
        if self.tape is not None:
            self.tape.note(result, rule.names[0])

    def approximates(self, name: str) -> None:
        """Note that a rule is used whose result is only approximate, whatever its input."""
        self.approximate[name] = None

    def prepare(self, build: Callable[[], Any], *origin: Hashable) -> Any:
        """What ``build`` returns, built once for every ``origin``."""
        if origin not in self.prepared:  # a tensor is itself, whatever its numbers
            self.prepared[origin] = build()
        return self.prepared[origin]


_current: ContextVar[Propagation | None] = ContextVar("propagation", default=None)


def current() -> Propagation:
    """The pass that is running, or an empty one."""
    return _current.get() or Propagation()


Kind = TypeVar("Kind", bound=Gaussian)


def recorded(value: Kind, *parents: tuple[Gaussian, Operator]) -> Kind:
    """The value itself; its responses are noted where a tape is running."""
    tape = current().tape
    if tape is not None:
        tape.record(value, *((settled(parent), operator) for parent, operator in parents))
    return value


def with_noise(x: Gaussian, added: Tensor, source: str) -> Gaussian:
    r""":math:`x + e` with :math:`E[e] = 0`: the same mean, and the variance that a source adds.

    Args:
        x: a value, ``[nodes, features]``.
        added: the variance, ``[nodes, features]``, or the covariance of each node's features,
            ``[nodes, features, features]``.
        source: name of the source.
    """
    var = added if added.dim() == 2 else added.diagonal(dim1=1, dim2=2)
    if isinstance(x, Affine):
        out: Gaussian = x.spread_by(var)
    else:
        out = Gaussian(x.mean, x.var + var)
    current().noises.append(Noise(out, added, source))
    return recorded(out, (x, Scale(torch.ones_like(x.mean[0]))))


def added(x: Tensor, y: Tensor, *, alpha: float = 1, disposable: bool = False) -> Tensor:
    r""":math:`x + \alpha y`, written over x where that is disposable and the pass allows it."""
    if (
        disposable
        and current().overwrite
        and 0 not in x.stride()
        and x.shape[-y.dim() :] == y.shape
    ):
        return x.add_(y, alpha=alpha)
    return torch.add(x, y, alpha=alpha)


@contextmanager
def propagating(propagation: Propagation) -> Iterator[Propagation]:
    """Make ``propagation`` the current pass."""
    token = _current.set(propagation)
    try:
        yield propagation
    finally:
        _current.reset(token)
