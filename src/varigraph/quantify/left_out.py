"""What one number of an answer does when links are taken out of the graph, one after the other."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from varigraph.moments.links import Coins
from varigraph.prediction.question import Question
from varigraph.prediction.sampled.network import Inputs, Network
from varigraph.prediction.sampled.runs import PlainRun
from varigraph.prediction.sampled.shortcuts import Trial
from varigraph.prediction.sources.links import LINKS
from varigraph.prediction.sources.source import SOURCES

#: The number that is asked about, from what the network says of a node, ``[outputs]``.
Number = Callable[[Tensor], Tensor]


@torch.no_grad()
def jumps(network: Network, number: Number, node: int) -> Tensor | None:  # -> [coins]
    r""":math:`y - y_{-c}`: the answer with all links, less that without those of coin c.

    A node that has one neighbour does not slope towards having none: it jumps. One run for every
    coin in doubt that the answer can depend on. How far that is, is found out: links from r steps
    on, all taken out at once, change nothing.

    Args:
        network: of a question whose links are removed where they are absent.
        number: y, from what the network says of the node.
        node: whose answer it is.

    Returns:
        The differences, 0 for links that are certain; None where no link is in doubt.
    """
    links = network.question.links
    if network.removed is None or links is None:
        return None
    SOURCES[LINKS].check(Trial.of(network))
    coins = links.coins

    def without(chosen: Tensor) -> Tensor:  # [coins] bool
        present = (~chosen)[coins.of_edge].to(coins.prob)
        inputs = Inputs(network.question.x.mean, coins=present)
        return number(network.through(inputs, PlainRun({}))[node].cpu().double())

    doubtful = coins.prob < 1
    whole = without(torch.zeros_like(doubtful))
    found = torch.zeros_like(coins.prob, dtype=torch.float64, device="cpu")
    reached = _within_reach(network.question, coins, node, whole, without)
    for coin in reached.nonzero().ravel().tolist():
        alone = torch.zeros_like(doubtful)
        alone[coin] = True
        found[coin] = whole - without(alone)
    return found


def _within_reach(
    question: Question,
    coins: Coins,
    node: int,
    whole: Tensor,
    without: Callable[[Tensor], Tensor],
) -> Tensor:  # -> [coins]
    """Coins in doubt whose links the answer of a node may depend on."""
    doubtful, steps = coins.prob < 1, steps_from(node, coins, len(question.x.mean))
    nearest = torch.minimum(steps[coins.source], steps[coins.target])  # [coins]
    least = 16 * torch.finfo(question.x.mean.dtype).eps * whole.abs().clamp_min(1)
    for reach in nearest[doubtful].unique().tolist():  # ascending
        beyond = doubtful & (nearest >= reach)
        if bool((whole - without(beyond)).abs() <= least):
            return doubtful.logical_and(~beyond)
    return doubtful


def steps_from(node: int, coins: Coins, nodes: int) -> Tensor:  # -> [nodes]
    """Steps from a node along the links, in any direction; the number of nodes where none lead."""
    steps = torch.full((nodes,), nodes, device=coins.source.device)
    steps[node] = 0
    for step in range(1, nodes):
        here = steps == step - 1
        touched = here[coins.source] | here[coins.target]
        ends = torch.cat([coins.source[touched], coins.target[touched]])
        new = ends[steps[ends] == nodes]
        if len(new) == 0:
            break
        steps[new] = step
    return steps
