"""What an answer does when something uncertain moves a little, or a link is left out."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from varigraph.choices import Task
from varigraph.errors import ModelError
from varigraph.moments import Gaussian
from varigraph.moments.links import Coins
from varigraph.prediction.network_call import no_randomness
from varigraph.prediction.question import Question
from varigraph.prediction.sampled.network import Inputs, Network, opened_network
from varigraph.prediction.sampled.runs import PlainRun
from varigraph.prediction.sampled.shortcuts import Trial
from varigraph.prediction.sources.features import FEATURES
from varigraph.prediction.sources.links import LINKS
from varigraph.prediction.sources.source import SOURCES, Leaf, considered
from varigraph.prediction.tasks import check_output, probabilities
from varigraph.quantify.shares import Scale


def by_slopes(question: Question, node: int, output: int, scale: Scale) -> tuple[Causes, Causes]:
    r"""Features and coins by slopes at the mean, of links that are removed by differences.

    .. math::
        \sigma_{wk}^2 \left(\frac{\partial y}{\partial x_{wk}}\right)^2 \qquad
        p (1 - p) \left(y - y_{-uv}\right)^2

    with the answer :math:`y_{-uv}` for the graph without the link {u, v}.

    Args:
        question: about a network without a closed form.
        node: whose answer it is.
        output: which of its outputs.
        scale: what number that is.

    Raises:
        ModelError: the network cannot be differentiated.
    """
    alone = question.only(*(s.name for s in considered(question) if not s.masks))
    with torch.enable_grad(), differentiable(alone) as network:
        leaves = leaves_of(alone)
        # In float64, or the probabilities of sure answers lose their slopes.
        row = outputs(network, leaves)[node].cpu().double()
        number = number_of(row, output, scale, alone.task)
        slope = slopes(number, {name: leaf.value for name, leaf in leaves.items()})
        jump = jumps(network, lambda row: number_of(row, output, scale, alone.task), node)
    coins = None if alone.links is None else alone.links.coins
    features = feature_causes(slope.get(FEATURES), alone.x.var)
    return features, link_causes(slope.get(LINKS, jump), coins)


def leaves_of(question: Question) -> dict[str, Leaf]:
    """What to differentiate by, source by source; links that are removed are not among it."""
    doubtful = [source for source in considered(question) if source.uncertain(question)]
    found = {source.name: source.leaf(question) for source in doubtful}
    return {name: leaf for name, leaf in found.items() if leaf is not None}


@contextmanager
def differentiable(question: Question) -> Iterator[Network]:
    """The network of a question in evaluation mode, with gradients.

    Raises:
        ModelError: the model draws random numbers all the same.
    """
    with ExitStack() as stack:
        network = stack.enter_context(opened_network(question, gradients=True))
        stack.enter_context(
            no_randomness(
                question.x.mean.device,
                "the model draws random numbers in evaluation mode, so its slopes are random too",
                "F.dropout(x, rate, training=self.training), and no other randomness",
            )
        )
        yield network


def outputs(network: Network, leaves: dict[str, Leaf]) -> Tensor:  # -> [nodes, outputs]
    """What a network says, before its last softmax if it has one; differentiable by the leaves."""
    question = network.question
    inputs, running = Inputs(question.x.mean.detach()), PlainRun({})
    for name, leaf in leaves.items():
        SOURCES[name].use(inputs, leaf.drawn)
    out = network.answer(inputs, running)
    nodes = len(question.x.mean)
    if not isinstance(out, Tensor) or out.shape[:1] != (nodes,) or out.dim() > 2:
        raise ModelError(
            f"the forward returned {_what(out)}, not one row per node for {nodes} nodes",
            "pick it: vg.attribute(..., forward=lambda model, x, data: model(x, ...)[0])",
        )
    logits = running.logits(out, question.task)
    check_output(Gaussian.certain(out.detach()), question.task, logits=running.looked_through)
    return logits


def slopes(number: Tensor, inputs: dict[str, Tensor]) -> dict[str, Tensor]:
    r"""Derivatives :math:`\partial y / \partial z` by one backward pass.

    Args:
        number: y, a single number.
        inputs: what to differentiate by, with a name for each.

    Returns:
        A tensor of the shape of each input. No gradient is left anywhere.

    Raises:
        ModelError: y cannot be differentiated, or does not depend on one of the inputs.
    """
    if not inputs:
        return {}
    try:
        found = torch.autograd.grad(number, list(inputs.values()), allow_unused=True)
    except RuntimeError as error:
        raise ModelError(
            f"the answer cannot be differentiated: {error}",
            "let the forward compute with tensors throughout, without detach() or torch.no_grad()",
        ) from error
    for name, slope in zip(inputs, found, strict=True):
        if slope is None:
            raise ModelError(
                f"the answer does not depend on the {name}, as far as its gradient tells",
                "let the forward use the x that it is given (not data.x), pass messages with "
                "layers of torch_geometric, and keep detach() and torch.no_grad() out",
            )
    return dict(zip(inputs, found, strict=True))


def _what(out: Any) -> str:
    return f"shape {tuple(out.shape)}" if isinstance(out, Tensor) else f"a {type(out).__name__}"


@dataclass(frozen=True, eq=False)
class Causes:
    """Everything of one kind that causes variance.

    Args:
        index: node and feature, node, or coin of each, ``[causes, 2]`` or ``[causes, 1]``.
        variance: that it causes, positive, float64, ``[causes]``.
    """

    index: Tensor
    variance: Tensor

    @cached_property
    def total(self) -> float:
        """Variance that they cause together."""
        return float(self.variance.sum())

    def adding_up_to(self, whole: float) -> Causes:
        """The same in proportion, so that together they cause so much."""
        factor = whole / self.total if self.total > 0 else 0.0
        return causes_at(self.index, factor * self.variance)

    def by_node(self) -> Causes:
        """Nodes, each with what its features cause together."""
        nodes, place = torch.unique(self.index[:, 0], return_inverse=True)
        variance = self.variance.new_zeros(len(nodes)).index_add(0, place, self.variance)
        return Causes(nodes[:, None], variance)

    def largest(self, top: int) -> list[tuple[list[int], float]]:
        """The index and variance of the ``top`` largest."""
        kept = self._order[:top]
        return list(zip(self.index[kept].tolist(), self.variance[kept].tolist(), strict=True))

    def rest(self, top: int, whole: float) -> float:
        """Variance of all but the ``top`` largest, and what of the whole none of them causes."""
        left = float(self.variance[self._order[top:]].sum())
        return left if self.total > 0 else whole

    @cached_property
    def _order(self) -> Tensor:
        # Stable: causes of the same size stand in the order of their index.
        return self.variance.sort(descending=True, stable=True).indices


def causes_at(index: Tensor, variance: Tensor) -> Causes:  # [causes, n], [causes]
    """Those that cause anything; on the CPU, in float64."""
    some = (variance > 0).cpu()
    return Causes(index.cpu()[some], variance.cpu().double()[some])


def feature_causes(slope: Tensor | None, var: Tensor) -> Causes:  # [nodes, features] each
    r"""Single features, each with :math:`\sigma_{wk}^2 (\partial y / \partial x_{wk})^2`.

    Args:
        slope: of the answer by every feature; None where no feature is in doubt.
        var: variance of every feature.
    """
    if slope is None:
        return _none(width=2)
    # Only the neighbourhood has slopes: the rest of a large graph is never copied.
    rows = ((slope != 0) & (var > 0)).any(1).nonzero()[:, 0]
    caused = _caused(slope[rows], var[rows])
    _check_finite(caused, "a feature of node", rows)
    places = caused.nonzero()
    index = torch.stack([rows.cpu()[places[:, 0]], places[:, 1]], 1)
    return Causes(index, caused[places[:, 0], places[:, 1]])


def link_causes(slope: Tensor | None, coins: Coins | None) -> Causes:  # [coins]
    r"""Links, each with :math:`p (1 - p) (\partial y / \partial z)^2` of its coin z.

    Args:
        slope: of the answer by every coin, or its jump; None where no link is in doubt.
        coins: the coins.
    """
    if slope is None or coins is None:
        return _none(width=1)
    prob = coins.prob.double()
    caused = _caused(slope, prob * (1 - prob))
    _check_finite(caused[:, None], "a link from node", coins.source)
    places = caused.nonzero()
    return Causes(places, caused[places[:, 0]])


def _none(width: int) -> Causes:
    return Causes(torch.zeros(0, width, dtype=torch.long), torch.zeros(0, dtype=torch.float64))


def _caused(slope: Tensor, var: Tensor) -> Tensor:  # [*shape] each -> [*shape]
    """In float64, on the CPU: squares of small slopes have no place in float32."""
    var = var.cpu().double()
    # What is certain is no cause, even where the slope is infinite.
    return torch.where(var > 0, slope.cpu().double().square() * var, 0.0)


def _check_finite(caused: Tensor, what: str, node: Tensor) -> None:  # [causes, parts], [causes]
    bad = ~caused.isfinite().all(1)
    if bad.any():
        first = int(node.cpu()[bad][0])
        raise ModelError(
            f"the slope of the answer by {what} {first} is not a finite number",
            "look for sqrt(), norm() or a division at 0 in the model; add a small eps there",
        )


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


def number_of(row: Tensor, column: int, scale: Scale, task: Task) -> Tensor:  # [outputs] -> []
    """The number, from what a network says of the node."""
    return (probabilities(row, task) if scale == "probability" else row)[column]
