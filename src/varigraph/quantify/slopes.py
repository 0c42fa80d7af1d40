"""What an answer does when something uncertain moves a little, or a link is left out."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

import torch
from torch import Tensor
from torch_geometric.data import Data

from varigraph.choices import Task
from varigraph.data.graphs import called
from varigraph.errors import GraphError, ModelError, OptionError
from varigraph.moments import Gaussian
from varigraph.moments.links import Coins
from varigraph.options import one_of, whole
from varigraph.prediction.network_call import no_randomness
from varigraph.prediction.question import Question
from varigraph.prediction.sampled.network import Inputs, Network, opened_network
from varigraph.prediction.sampled.runs import PlainRun
from varigraph.prediction.sampled.shortcuts import Trial
from varigraph.prediction.sources.links import LINKS, Links
from varigraph.prediction.sources.source import SOURCES, Leaf, considered
from varigraph.prediction.tasks import check_output, probabilities


def leaves_of(question: Question) -> dict[str, Leaf]:
    """What to differentiate by, source by source; links that are removed are not among it.

    Raises:
        GraphError: nothing is in doubt, so that there is nothing to divide.
    """
    doubtful = [source for source in considered(question) if source.uncertain(question)]
    found = {source.name: source.leaf(question) for source in doubtful}
    leaves = {name: leaf for name, leaf in found.items() if leaf is not None}
    if not leaves and not any(isinstance(source, Links) for source in doubtful):
        raise GraphError(
            "nothing in the data is uncertain: there is no variance to divide",
            "data.x_var = 0.1 (noise of the features) or data.edge_prob = ... (chances of the "
            'links, below 1, read with another option than links="weight")',
        )
    return leaves


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

    def largest(self, top: int) -> list[tuple[list[int], float]]:
        """The index and variance of the ``top`` largest."""
        kept = self._order[:top]
        return list(zip(self.index[kept].tolist(), self.variance[kept].tolist(), strict=True))

    def rest(self, top: int) -> float:
        """Variance of all but the ``top`` largest."""
        return float(self.variance[self._order[top:]].sum())

    @cached_property
    def _order(self) -> Tensor:
        # Stable: causes of the same size stand in the order of their index.
        return self.variance.sort(descending=True, stable=True).indices


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


def node_causes(features: Causes) -> Causes:
    """Nodes, each with what its features cause together."""
    nodes, place = torch.unique(features.index[:, 0], return_inverse=True)
    variance = features.variance.new_zeros(len(nodes)).index_add(0, place, features.variance)
    return Causes(nodes[:, None], variance)


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


def total_of(slope: Tensor, variance: Tensor) -> float:  # [*shape] each
    r""":math:`\sum_i \sigma_i^2 (\partial y / \partial z_i)^2` of all that one source moves."""
    return float(_caused(slope, variance).sum())


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


Scale = Literal["probability", "logit", "value"]
#: What the number asked about can be, the default first.
SCALES: dict[Task, tuple[Scale, ...]] = {
    "classification": ("probability", "logit"),
    "binary": ("probability", "logit"),
    "multilabel": ("probability", "logit"),
    "regression": ("value",),
}


def number_of(row: Tensor, column: int, scale: Scale, task: Task) -> Tensor:  # [outputs] -> []
    """The number, from what a network says of the node."""
    return (probabilities(row, task) if scale == "probability" else row)[column]


def place_of_node(node: int | str, data: Data) -> int:
    """The node by its number, or by its name in ``data.node_names``."""
    if isinstance(node, str):
        return called([node], data)[0]
    last = len(data.x) - 1
    return whole("node", node, most=last, remedy=f"count from 0 to {last}")


def column_of(output: int | None, row: Tensor, scale: Scale) -> int:  # [outputs]
    """The output that is asked for; the likeliest class where none is."""
    if output is not None:
        last = len(row) - 1
        return whole("output", output, most=last, remedy=f"count from 0 to {last}")
    if scale == "value" and len(row) > 1:
        raise OptionError(f"the model has {len(row)} outputs per node", "say which: output=0")
    return int(row.argmax())


def scale_of(task: Task, of: Scale | None) -> Scale:
    """The scale that is asked for, or that of the task."""
    known = SCALES[one_of("task", task, list(SCALES))]
    return known[0] if of is None else one_of("of", of, known)
