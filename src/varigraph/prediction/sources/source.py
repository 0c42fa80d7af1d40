"""What a source of uncertainty is asked, by every method in the same words.

Methods go through :data:`SOURCES` and know none of them by name. A new one is a class and one line
that registers it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Hashable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from torch_geometric.data import Data

if TYPE_CHECKING:
    from varigraph.moments import Gaussian
    from varigraph.moments.tape import Noise
    from varigraph.prediction.first_order.method import FirstOrder
    from varigraph.prediction.first_order.shares import Share
    from varigraph.prediction.masks import Site
    from varigraph.prediction.question import Question
    from varigraph.prediction.sampled.network import Inputs, Network
    from varigraph.prediction.sampled.shortcuts import Trial

#: The part of a variance that no source causes alone.
INTERACTIONS = "interactions"
#: Tensors of a draw, by what they are.
Drawn = Mapping[Hashable, Tensor]


@dataclass(frozen=True, eq=False)
class Leaf:
    """Something uncertain at its mean, to differentiate an answer by.

    Args:
        value: the mean, with a gradient.
        variance: of each number, of the same shape.
        drawn: the value as a draw that a run can use, see :meth:`Source.use`.
    """

    value: Tensor
    variance: Tensor
    drawn: Drawn


class Source(ABC):
    """A reason why the answer of a network is uncertain.

    Attributes:
        name: what users call it.
        field: what makes it uncertain in a kind of nodes or links; empty if it has no kinds.
        epistemic: whether it is about the network, and not about the data.
        moves_features: whether it changes the features that the network is given.
        places_noise: whether it acts in closed forms by noise that it places on values.
        masks: whether its draws are the masks of dropout.
        in_small_space: whether its draws also fit features in a small space, see
            :class:`~varigraph.prediction.sampled.draws.SmallFeatures`.
        optional: whether it is a part of an answer only where the graph says something about it.
        remedy: what would reduce the variance that it causes.
    """

    name: str
    field: str = ""
    epistemic: bool = False
    moves_features: bool = False
    places_noise: bool = True
    masks: bool = False
    in_small_space: bool = False
    optional: bool = False
    remedy: str = "know it better"

    def given(self, data: Data) -> Any:
        """What the graph says about it, kept as ``question.given[name]``; None for nothing."""
        return None

    @abstractmethod
    def held(self, question: Question) -> Question:
        """The same question with this source at its mean."""

    @abstractmethod
    def uncertain(self, question: Question) -> bool:
        """Whether there is anything uncertain about it."""

    def considered(self, question: Question) -> bool:
        """Whether it is to be considered at all, once it is asked for."""
        return True

    def check_question(self, question: Question) -> None:
        """Look at what is asked before any work on it; may raise."""
        return

    def acting(self, question: Question, *, plain: bool) -> AbstractContextManager[None]:
        """While this is open, the model is under its influence, on stand-ins or plain tensors."""
        return nullcontext()

    # In closed form.

    def enter(self, x: Gaussian, question: Question) -> Gaussian:
        """The features with the noise that this source puts on them.

        See :func:`~varigraph.moments.propagation.with_noise`.
        """
        return x

    def enter_graph(self, graph: Data, question: Question) -> Data:
        """The graph with stand-ins for what this source makes uncertain in it, or as it was."""
        return graph

    def share(self, network: FirstOrder) -> Share | None:
        """What it causes in the outputs, to first order; None: what its noises do."""
        return None

    def check_noises(self, noises: Sequence[Noise]) -> None:
        """Look at where noise was placed in a pass; may warn or raise."""
        return

    def check_rules(self, question: Question) -> None:
        """Look at whether rules see all that it does to a network; may raise."""
        return

    def by_masks(self, question: Question) -> Tensor | None:  # [nodes, outputs, outputs]
        """Its share by T draws, for closed forms that are asked for that; else None."""
        return None

    # Drawn.

    @abstractmethod
    def draw(self, network: Network, sample: int, sites: Sequence[Site]) -> Drawn:
        """The draw of a number: tensors that can be stacked with those of other draws.

        Args:
            network: what it is drawn for.
            sample: number of the draw; the same number gives the same draw.
            sites: where dropout acts.
        """

    def draws(self, network: Network, samples: Sequence[int], sites: Sequence[Site]) -> Drawn:
        """Several draws, each tensor stacked."""
        each = {sample: self.draw(network, sample, sites) for sample in dict.fromkeys(samples)}
        found = [each[sample] for sample in samples]
        return {key: torch.stack([one[key] for one in found]) for key in found[0]}

    @abstractmethod
    def use(self, inputs: Inputs, drawn: Drawn) -> None:
        """Put a draw into what a run is given."""

    def put(self, inputs: Inputs, network: Network, sample: int) -> None:
        """Draw for one run alone."""
        self.use(inputs, self.draw(network, sample, ()))

    def check(self, trial: Trial) -> None:
        """Look at a first run, whether or not this source is considered; may raise."""
        return

    def acts(self, trial: Trial) -> bool:
        """Whether a first run has shown that there is something to draw."""
        return self.uncertain(trial.network.question)

    def reaches(self, *, coins: bool) -> bool:
        """Whether its draw may change what comes before the first dropout.

        Args:
            coins: whether links have been looked at by then.
        """
        return True

    def bytes_of_draw(self, network: Network) -> int:
        """Memory that its draw takes beside the features."""
        return 0

    # Differentiated.

    def leaf(self, question: Question) -> Leaf | None:
        """What an answer is differentiated by; None where nothing of it is in the inputs."""
        return None


#: All sources by their names, in the order in which they act in a network.
SOURCES: dict[str, Source] = {}


def register(source: Source) -> None:
    """Have every method consider a source."""
    SOURCES[source.name] = source


def all_parts(given: Mapping[str, Any] | None = None) -> tuple[str, ...]:
    """The parts of a variance, in the order in which they are shown.

    Args:
        given: what a graph says about sources; optional ones are left out where it says nothing.
            A variance's own parts may hold others, which come last.
    """
    said = {name for name, value in (given or {}).items() if value is not None}
    shown = (name for name, source in SOURCES.items() if not source.optional or name in said)
    others = (name for name in given or {} if name not in SOURCES and name != INTERACTIONS)
    return (*shown, INTERACTIONS, *others)


def about_network() -> tuple[str, ...]:
    """The sources that are about the network, and not about the data."""
    return tuple(name for name, source in SOURCES.items() if source.epistemic)


def fields_of_kinds() -> dict[str, str]:
    """What makes sources uncertain in a kind of nodes or links, by their names."""
    return {name: source.field for name, source in SOURCES.items() if source.field}


def considered(question: Question) -> list[Source]:
    """The sources that a question is about, in the order in which they act."""
    return [source for name, source in SOURCES.items() if name in question.sources]


def entering(x: Gaussian, question: Question) -> Gaussian:  # [nodes, features]
    """The features with all noise that sources place on them."""
    for source in considered(question):
        x = source.enter(x, question)
    return x


def entered(question: Question) -> tuple[Data, ...]:
    """The graph with all that is uncertain in it, where that is more than features and links."""
    graph = question.graph
    if graph is None:
        return ()
    for source in considered(question):
        graph = source.enter_graph(graph, question)
    return () if graph is question.graph else (graph,)


def only(question: Question, names: frozenset[str]) -> Question:
    """The same question about fewer sources; the others are held at their means."""
    for name, source in SOURCES.items():
        if name not in names or not source.considered(question):
            question = replace(source.held(question), sources=question.sources - {name})
    return question
