"""How one number of a network's answer follows what is uncertain about its inputs."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import torch
from torch import Tensor

from varigraph.errors import GraphError, ModelError
from varigraph.moments import Gaussian
from varigraph.moments.running import no_randomness
from varigraph.prediction.checks import check_output
from varigraph.prediction.question import Question
from varigraph.prediction.sampled.network import Inputs, Network, opened_network
from varigraph.prediction.sampled.passes import Pass
from varigraph.prediction.sources.source import SOURCES, Leaf, considered


def leaves_of(question: Question) -> dict[str, Leaf]:
    """What to differentiate by, source by source.

    Raises:
        GraphError: nothing is in doubt, so that there is nothing to divide.
    """
    doubtful = [source for source in considered(question) if source.uncertain(question)]
    found = {source.name: source.leaf(question) for source in doubtful}
    leaves = {name: leaf for name, leaf in found.items() if leaf is not None}
    if not leaves:
        raise GraphError(
            "nothing in the data is uncertain: there is no variance to divide",
            "data.x_var = 0.1 (noise of the features) or data.edge_prob = ... (chances of the "
            'links, below 1, read with links="bernoulli")',
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
    inputs, running = Inputs(question.x.mean.detach()), Pass({})
    for name, leaf in leaves.items():
        SOURCES[name].use_leaf(inputs, leaf, question)
    out = network.answer(inputs, running)
    nodes = len(question.x.mean)
    if not isinstance(out, Tensor) or out.shape[:1] != (nodes,) or out.dim() > 2:
        raise ModelError(
            f"the forward returned {_what(out)}, not one row per node for {nodes} nodes",
            "pick it: vg.attribute(..., forward=lambda model, x, data: model(x, ...)[0])",
        )
    logits = running.logits(out, question.task)
    check_output(Gaussian.certain(out.detach()), question.task)
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
