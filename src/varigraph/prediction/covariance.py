"""``method="covariance"``: one features x features block per node, nodes taken as independent."""

from __future__ import annotations

from typing import get_args

import torch
from torch import Tensor

from varigraph.errors import MissingRuleError, TooLargeError
from varigraph.moments.affine import InputNoise
from varigraph.moments.gaussian import Gaussian
from varigraph.moments.tape import Columns, Dense, Entry, Operator, Scale, Sum, Tape
from varigraph.prediction.answer import answer
from varigraph.prediction.checks import check_nodes
from varigraph.prediction.linearised import linearised
from varigraph.prediction.logits import CorrelatedLogits, with_sampled_masks
from varigraph.prediction.prediction import Prediction
from varigraph.prediction.question import Question, Source


def covariance(question: Question) -> Prediction:
    r"""Mean and covariance of each node's numbers, layer by layer.

    .. math::
        \Sigma_{W x + b} = W \Sigma W' \qquad
        \Sigma_{f(x)} = g g' \circ \Sigma \qquad
        \Sigma_u = \sum_v E[S_{uv}^2] \Sigma_v + Var[S_{uv}] \mu_v \mu_v'

    with the averaged slope g of an activation. The numbers of a node keep their correlation, those
    of different nodes lose it: a quarter to a third low on two layers. But there is no pattern of
    walks, so that deep networks and dense graphs are no harder than others.
    """
    with torch.no_grad():
        whole, mean = _blocks(question)
        alone = {source: _alone(question, source, whole) for source in get_args(Source)}
    rest = whole - torch.stack(list(alone.values())).sum(0)
    logits = CorrelatedLogits(mean, {**alone, "interactions": rest})
    return answer(with_sampled_masks(logits, question), question, method="covariance")


def _alone(question: Question, source: Source, whole: Tensor) -> Tensor:
    if question.sources == {source}:
        return whole
    if source not in question.sources:
        return torch.zeros_like(whole)
    return _blocks(question.only(source))[0]


def _blocks(question: Question) -> tuple[Tensor, Tensor]:
    """Covariance and mean of the logits of the nodes asked for."""
    network = linearised(question, exact=False)
    rows = check_nodes(question.nodes, len(network.output))
    found, mean = _propagated(network.tape, network.output, question), network.output.mean
    return (found, mean) if rows is None else (found[rows], mean[rows])


def _propagated(tape: Tape, output: Gaussian, question: Question) -> Tensor:
    """Covariance of the output, ``[nodes, classes, classes]``, through every value on the tape.

    A value is held as variances ``[nodes, features]`` until a linear map ties its numbers together.
    """
    added = {id(drop.value): drop.added for drop in tape.drops}
    blocks = {id(question.x): question.x.var}
    last = {id(parent): entry for entry in tape.entries for parent, _ in entry.parents}
    for entry in tape.entries[1:]:
        block = _sum_of_parts(entry, tape, blocks, question.memory)
        more = added.get(id(entry.value), torch.zeros_like(entry.value.mean))
        blocks[id(entry.value)] = block + (more if block.dim() == 2 else torch.diag_embed(more))
        for parent, _ in entry.parents:
            if last[id(parent)] is entry and parent is not output:
                blocks.pop(id(parent), None)
    found = blocks.get(id(output))
    if found is None:
        name = tape.unknown.get(id(output), "a step of the model")
        raise MissingRuleError(f"{name}() has no response", 'take method="sampled"')
    return found if found.dim() == 3 else torch.diag_embed(found)


def _sum_of_parts(entry: Entry, tape: Tape, blocks: dict[int, Tensor], memory: int) -> Tensor:
    nodes, size = entry.value.mean.shape
    need = 4 * entry.value.mean.element_size() * nodes * size**2
    if need > memory and _is_block(entry, blocks):
        raise TooLargeError(
            f"{nodes:,} blocks of {size} x {size} numbers need {need / 2**30:.1f} GiB",
            'give more memory=, or take method="sampled"',
        )
    parts = []
    for parent, operator in entry.parents:
        if not tape.knows(parent):
            name = tape.unknown.get(id(parent), "a step of the model")
            raise MissingRuleError(f"{name}() has no response", 'take method="sampled"')
        parts.append(_moved(blocks[id(parent)], operator, parent, entry.value))
    if any(part.dim() == 3 for part in parts):
        parts = [part if part.dim() == 3 else torch.diag_embed(part) for part in parts]
    return sum(parts[1:], parts[0])


def _is_block(entry: Entry, blocks: dict[int, Tensor]) -> bool:
    """Whether the numbers of a node are tied together: by this step, or by one before it."""
    return any(
        isinstance(operator, Dense) or (id(parent) in blocks and blocks[id(parent)].dim() == 3)
        for parent, operator in entry.parents
    )


def _moved(block: Tensor, operator: Operator, parent: Gaussian, child: Gaussian) -> Tensor:
    """Covariance of a child that comes from one of its parents."""
    if isinstance(operator, Dense):
        return _mapped(block, operator.weight)
    if isinstance(operator, Scale):
        factor = operator.factor.expand_as(parent.mean)
        return block * (
            factor.square() if block.dim() == 2 else factor[:, :, None] * factor[:, None, :]
        )
    if isinstance(operator, Columns):
        left, right = operator.first, child.mean.shape[1] - operator.first - block.shape[-1]
        pad = (left, right) if block.dim() == 2 else (left, right, left, right)
        return torch.nn.functional.pad(block, pad)
    return _summed(block, operator, parent)


def _mapped(block: Tensor, weight: Tensor) -> Tensor:
    if block.dim() == 3:
        return weight @ block @ weight.T
    try:
        noise = InputNoise.of(block, 0)
    except MissingRuleError:  # differs by node and by feature: no shortcut
        return torch.stack([(weight * row) @ weight.T for row in block])
    return noise.node[:, None, None] * ((weight * noise.feature) @ weight.T)


def _summed(block: Tensor, operator: Sum, parent: Gaussian) -> Tensor:
    links = operator.neighbours
    if links is None:
        matrix = operator.expected
        squares = type(matrix)(matrix.rows, matrix.columns, matrix.values.square(), matrix.shape)
        return (squares @ block.flatten(1)).view(-1, *block.shape[1:])
    total = (links.square @ block.flatten(1)).view_as(block)
    if links.coin is None:
        return total
    mean = parent.mean
    if block.dim() == 2:
        return total + links.coin @ mean.square()
    products = mean[:, :, None] * mean[:, None, :]
    return total + (links.coin @ products.flatten(1)).view_as(block)
