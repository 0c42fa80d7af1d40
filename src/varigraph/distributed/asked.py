"""A part and what is asked about it, opened whenever its turn comes."""

from __future__ import annotations

import gc
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import nn

from varigraph.distributed.exchange import Nobody, OthersRows
from varigraph.distributed.network import FarInputs
from varigraph.distributed.parts import Partition
from varigraph.distributed.share import Share
from varigraph.errors import ModelError, OptionError, VarigraphError
from varigraph.options import place_of
from varigraph.prediction.calling import Forward
from varigraph.prediction.masks import Site
from varigraph.prediction.numbering import numbered
from varigraph.prediction.predict import ask, check_masks
from varigraph.prediction.processor import give_back
from varigraph.prediction.question import Question, refuse_scripted
from varigraph.prediction.sampled.network import Network, opened_network
from varigraph.prediction.sources.source import SOURCES

#: Methods that ask for the rows of others before each layer.
STEP_BY_STEP = ("sampled", "diagonal")
ALONE = "predict without parts: vg.predict(model, data)"


@dataclass(frozen=True)
class Asking:
    """What is asked of every part.

    Args:
        whole: the graph in parts.
        model: the network.
        method: how it is answered.
        forward: how the network is called.
        options: those of :func:`varigraph.predict`.
    """

    whole: Partition
    model: nn.Module
    method: str
    forward: Forward | None
    options: Mapping[str, Any]

    def of(self, share: Share) -> Asked:
        """The same of some rows of the graph.

        Raises:
            OptionError: something is asked that parts cannot tell.
        """
        question = self.question(share.data())
        far = FarInputs(Nobody(share))
        own = torch.arange(len(share.own))
        question = replace(question, run=far.watching(question.run), nodes=own)
        return Asked(share, question, far)

    def part(self, number: int) -> Asked:
        """The same of one part."""
        return self.of(Share(self.whole, number, self.whole.parts))

    def question(self, data: Any) -> Question:
        """The question about a graph that is a part of the whole."""
        question = ask(self.model, data, forward=self.forward, **self.options)
        refuse_scripted(question.model)
        check_masks(self.method, question)
        others = [name for name, given in question.given.items()
                  if given is not None and SOURCES[name].optional]  # fmt: skip
        if others and self.method in STEP_BY_STEP:
            raise OptionError(
                f"noise in {others[0]} is not followed in parts of a graph by {self.method}",
                'method="first-order"; or ' + ALONE,
            )
        return question


@dataclass(frozen=True, eq=False)
class Asked:
    """A part of a graph, or several put together, and what is asked about it.

    Args:
        share: which rows of the graph.
        question: about them.
        far: has layers ask for the rows of others.
    """

    share: Share
    question: Question
    far: FarInputs

    @contextmanager
    def asking(self, others: OthersRows) -> Iterator[None]:
        """While this is open, draws are those of the whole graph, and rows are asked for."""
        self.far.others = others
        with numbered(self.share.numbering), self.far.of(self.question.model):
            yield

    @contextmanager
    def opened(self, sites: Sequence[Site], *, plain: bool = False) -> Iterator[Network]:
        """The network ready to run.

        Args:
            sites: where dropout acts.
            plain: nothing is drawn.
        """
        question = self.question.only() if plain else self.question
        with opened_network(question) as network:
            if network.removed is not None:
                network.removed.sites = sites
            yield network


@contextmanager
def little_to_sweep() -> Iterator[None]:
    """While this is open, what there is already is not looked through again: room is made fast."""
    gc.collect()
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()


def make_room() -> None:
    """Give back what a part has taken: questions and networks refer to each other in circles."""
    gc.collect()
    give_back()


@contextmanager
def guarded(model: nn.Module) -> Iterator[None]:
    """What a network raises on a part of a graph is said to be its own."""
    with ExitStack() as stack:
        stack.enter_context(torch.inference_mode(False))
        stack.enter_context(torch.autocast("cpu", enabled=False))
        try:
            yield
        except VarigraphError:
            raise
        except Exception as error:
            raise ModelError(
                f"{type(model).__name__} fails on a part of the graph: {place_of(error)}",
                "run it on the features and links that it was trained on; or " + ALONE,
            ) from error
