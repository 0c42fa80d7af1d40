"""Forwards of the network as it is: one, many in a loop, many by vmap."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn

from varigraph.prediction.memory import as_bytes
from varigraph.studies.speed.answer import Answer
from varigraph.studies.speed.subject import Subject

#: Numbers per node and mask that a forward holds at once: a few layers of 64.
NUMBERS = 512


def plain(subject: Subject) -> Answer:
    """One forward with ``edge_index``: what everything is compared with."""
    return _forward(subject, subject.graph.edge_index)


def plain_csr(subject: Subject) -> Answer:
    """One forward with the links in compressed rows, which torch_geometric takes as well."""
    return _forward(subject, subject.adjacency)


def dropout_loop(subject: Subject) -> Answer:
    """As many forwards with dropout left on as there are masks."""
    return _dropout_loop(subject, subject.graph.edge_index)


def dropout_loop_csr(subject: Subject) -> Answer:
    """The same with the links in compressed rows."""
    return _dropout_loop(subject, subject.adjacency)


def dropout_vmap(subject: Subject) -> Answer:
    """The same loop by ``torch.func.vmap``, as many masks at a time as fit in memory.

    With compressed rows, for which vmap has no rule of its own but goes from mask to mask: with
    ``edge_index``, where it has one, it takes twice as long.
    """
    graph, model, links = subject.graph, subject.model, subject.adjacency
    weights: dict[str, Tensor] = dict(model.named_parameters())
    at_once = as_bytes(subject.memory) // (NUMBERS * graph.num_nodes * graph.x.element_size())

    def forward(_: Tensor) -> Tensor:
        logits: Tensor = torch.func.functional_call(model, weights, (graph.x, links))
        return logits

    with torch.no_grad(), dropout_on(model), warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="There is a performance drop")
        many = torch.vmap(forward, randomness="different", chunk_size=max(1, at_once))
        return summary(many(torch.arange(subject.looped, device=graph.x.device)))


def summary(logits: Tensor) -> Answer:  # [masks, nodes, classes]
    """Mean and variance over masks.

    Args:
        logits: under each mask.
    """
    chances = logits.softmax(-1)
    return Answer(
        logits.mean(0), logits.var(0, correction=0), chances.mean(0), chances.var(0, correction=0)
    )


@contextmanager
def dropout_on(model: nn.Module) -> Iterator[None]:
    """Dropout acts within it.

    Args:
        model: without batch norms, which would have to be left out.
    """
    model.train()
    try:
        yield
    finally:
        model.eval()


@torch.no_grad()
def _forward(subject: Subject, links: Tensor) -> Answer:
    return Answer(subject.model(subject.graph.x, links))


@torch.no_grad()
def _dropout_loop(subject: Subject, links: Tensor) -> Answer:
    with dropout_on(subject.model):
        found = [subject.model(subject.graph.x, links) for _ in range(subject.looped)]
    return summary(torch.stack(found))
