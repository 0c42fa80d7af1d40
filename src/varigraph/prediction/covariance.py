"""``method="covariance"``: one features x features block per node, nodes taken as independent."""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor

from varigraph.moments.chunks import row_slices
from varigraph.prediction.answer import answer_by_blocks
from varigraph.prediction.checks import check_nodes
from varigraph.prediction.class_probabilities import active_parts
from varigraph.prediction.linearised import Linearised, linearised
from varigraph.prediction.logits import CorrelatedLogits
from varigraph.prediction.needs import (
    SMALL_WORK,
    Budget,
    held_by,
    of_activations,
    of_answer,
    of_sampled_masks,
)
from varigraph.prediction.node_blocks import NodeBlocks
from varigraph.prediction.prediction import Prediction
from varigraph.prediction.question import Question
from varigraph.prediction.sources.source import INTERACTIONS, SOURCES, all_parts


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
        whole, mean, approximate = _blocks(question)
        alone = {source: _alone(question, source, whole) for source in SOURCES}
    rest = whole - sum(alone.values())
    logits = CorrelatedLogits(mean, {**alone, INTERACTIONS: rest})
    active = active_parts(logits)  # of all nodes: the answer is the same whichever are asked for
    asked = check_nodes(question.nodes, len(mean))
    logits = logits if asked is None else logits.rows(asked)
    for name, source in SOURCES.items():
        drawn = source.by_masks(question)
        if drawn is not None:
            logits = replace(logits, shares={**logits.shares, name: drawn})
    nodes, classes = logits.mean.shape
    blocks = (logits.rows(rows) for rows in row_slices(nodes, 16 * classes**2))
    return answer_by_blocks(
        blocks, nodes, question, active=active, method="covariance", approximate=approximate
    )


def _alone(question: Question, source: str, whole: Tensor) -> Tensor:
    if question.sources == {source}:
        return whole
    if source not in question.sources:
        return torch.zeros_like(whole[:1, :1, :1]).expand_as(whole)
    return _blocks(question.only(source))[0]


def _blocks(question: Question) -> tuple[Tensor, Tensor, tuple[str, ...]]:
    """Covariance and mean of the logits of all nodes; rules that are approximate."""
    network = linearised(question, exact=False)
    blocks = NodeBlocks(network.tape, network.output, question.x)
    _refuse_too_large(question, network, blocks)
    return blocks.covariance, network.output.mean, network.approximate


def _refuse_too_large(question: Question, network: Linearised, blocks: NodeBlocks) -> None:
    output = network.output
    nodes, classes = output.mean.shape
    results = (1 + len(all_parts())) * nodes * classes**2 * output.mean.element_size()
    held = held_by(network.tape) + results + of_answer(nodes, output) + SMALL_WORK
    held += of_sampled_masks(nodes, output, question)
    need, size = blocks.bytes
    need = max(need, of_activations(network.tape))
    Budget(question, held).refuse_beyond(need, f"{nodes:,} blocks of {size} x {size} numbers")
