"""torch-uncertainty's dropout wrapper, where that package is installed."""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from typing import cast

import torch
from torch import Tensor, nn

from varigraph.studies.speed.answer import Answer
from varigraph.studies.speed.forwards import summary
from varigraph.studies.speed.subject import Subject
from varigraph.training import PaperNetwork

PACKAGE = "torch_uncertainty"


def installed() -> bool:
    """Whether the package is there."""
    return find_spec(PACKAGE) is not None


@torch.no_grad()
def wrapped(subject: Subject) -> Answer:
    """Its ``mc_dropout`` around the network, with the links in compressed rows.

    It switches ``nn.Dropout`` modules only, and hands on ``x`` alone: the network is rewritten
    with modules and knows its links. Repeating ``x`` along its first axis would be another graph,
    so that it loops over masks.
    """
    model = _WithModules(cast(PaperNetwork, subject.model), subject.adjacency)
    wrapper = import_module(f"{PACKAGE}.methods").mc_dropout
    many = wrapper(model, num_estimators=subject.looped, on_batch=False).eval()
    found: Tensor = many(subject.graph.x)
    return summary(found.unflatten(0, (subject.looped, -1)))


class _WithModules(nn.Module):
    """The paper's network with modules for dropout, on one graph."""

    def __init__(self, network: PaperNetwork, links: Tensor) -> None:
        super().__init__()
        self.convs = nn.ModuleList([network.conv1, network.conv2])
        self.dense = nn.ModuleList([network.dense1, network.dense2])
        self.drops = nn.ModuleList(nn.Dropout(network.dropout) for _ in range(4))
        self.last, self.links = network.dense3, links

    def forward(self, x: Tensor) -> Tensor:  # [nodes, features] -> [nodes, classes]
        """Logits of the classes."""
        for conv, drop in zip(self.convs, self.drops[:2], strict=True):
            x = drop(conv(x, self.links))
        for dense, drop in zip(self.dense, self.drops[2:], strict=True):
            x = drop(dense(x))
        logits: Tensor = self.last(x)
        return logits
