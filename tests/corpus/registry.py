"""The list of networks: how each is built, what it is given, and how it is called."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any, TypeVar

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from corpus.graphs import GRAPHS

Call = Callable[[nn.Module, Any, Any], Any]
Build = TypeVar("Build", bound=Callable[[], nn.Module])
#: Steps that weights are trained for, and their length.
STEPS, RATE = 40, 0.01


@dataclass(frozen=True, eq=False)
class Network:
    """A network as somebody wrote it.

    Args:
        name: what it is called.
        chapter: the file that it stands in.
        build: makes it, untrained.
        graph: name of the graph that it is for.
        target: field of the graph, or of a kind of its nodes, that it is trained to answer.
        call: how it is called, ``call(model, x, data)``; None for ``model(x, edge_index)``, which
            is what the library takes for granted.
        takes_data: whether it is called as ``model(data)``.
        picks: which part of the answer counts, where it is a tuple or a dict.
        alone: whether draws have to be run one by one, because it looks at a graph as a whole.
        options: what ``vg.predict`` is told besides.
    """

    name: str
    chapter: str
    build: Callable[[], nn.Module]
    graph: str = "papers"
    target: str | tuple[str, str] = "y"
    call: Call | None = None
    takes_data: bool = False
    picks: str | int | None = None
    alone: bool = False
    options: Mapping[str, Any] = field(default_factory=dict)

    @property
    def data(self) -> Any:
        """Its graph; to be looked at, not changed."""
        return GRAPHS[self.graph]()

    @property
    def x(self) -> Any:
        """Its features; a dict where there are several kinds of nodes."""
        return self.data.x_dict if self.graph == "shop" else self.data.x

    @property
    def task(self) -> str:
        """What its answer means."""
        task: str = self.options.get("task", "classification")
        return task

    def answer(self, model: nn.Module, x: Any, data: Any) -> Tensor:
        """What the network says to other features, called in the way of its author."""
        out = self._called(model, x, data)
        return out if self.picks is None else out[self.picks]

    def _called(self, model: nn.Module, x: Any, data: Any) -> Any:
        if self.call is not None:
            return self.call(model, x, data)
        if self.takes_data:
            changed = data.clone()
            changed.x = x
            return model(changed)
        return model(x, data.edge_index)

    def trained(self) -> nn.Module:
        """A network in evaluation mode, without anything that training may have left in caches."""
        return self._with(_weights(self))

    def untrained(self) -> nn.Module:
        """The same before training."""
        return self._with(_weights(self, steps=0))

    def _with(self, weights: dict[str, Tensor]) -> nn.Module:
        with torch.random.fork_rng():
            torch.manual_seed(0)
            model = self.build()
        model.load_state_dict(weights)
        return model.eval()


@cache
def _weights(network: Network, steps: int = STEPS) -> dict[str, Tensor]:
    """What a few dozen steps of training end at."""
    x, data = network.x, network.data
    kind, name = ("", network.target) if isinstance(network.target, str) else network.target
    target = data[kind][name] if kind else data[name]
    with torch.random.fork_rng():
        torch.manual_seed(0)
        model = network.build()
        network.answer(model, x, data)  # sizes that are found on the first call
        optimiser = torch.optim.Adam(model.parameters(), lr=RATE)
        for _ in range(steps):
            optimiser.zero_grad()
            _loss(network.answer(model, x, data), target, network.task).backward()
            optimiser.step()
    return model.state_dict()


def _loss(out: Tensor, target: Tensor, task: str) -> Tensor:
    if task == "classification":
        return F.cross_entropy(out, target)
    if task == "regression":
        return F.mse_loss(out.view_as(target), target)
    return F.binary_cross_entropy_with_logits(out.view_as(target), target)


NETWORKS: dict[str, Network] = {}


def network(**needs: Any) -> Callable[[Build], Build]:
    """Put a class, or a function that makes a network, on the list under its own name."""

    def register(build: Build) -> Build:
        name, chapter = build.__name__, build.__module__.rpartition(".")[2]
        assert name not in NETWORKS, f"two networks are called {name}"
        NETWORKS[name] = Network(name, chapter, build, **needs)
        return build

    return register
