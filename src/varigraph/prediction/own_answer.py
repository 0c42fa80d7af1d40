"""The network's own answer, beside which ours is judged, and what its rows are about."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from varigraph.data.graph_parts import links
from varigraph.data.kinds import StackedGraph
from varigraph.prediction.memory import RoomForPasses
from varigraph.prediction.prediction import Prediction
from varigraph.prediction.question import Question, check_nodes
from varigraph.prediction.rows import Rows
from varigraph.prediction.sampled.neighbour_sums import summed_messages
from varigraph.prediction.sampled.network import opened_network
from varigraph.prediction.sampled.shortcuts import PART_FOR_MESSAGES
from varigraph.prediction.tasks import probabilities


def beside_own(answer: Prediction, question: Question, *, pairs: bool) -> Prediction:
    """The same answer with the network's own one, and with what its rows are about.

    Args:
        answer: to the question.
        question: what was asked.
        pairs: whether rows are pairs of nodes.
    """
    plain = own_answer(question)
    count = _count(answer, question) if plain is None else len(plain)
    index = check_nodes(question.nodes, count)
    if plain is not None and index is not None:
        plain = plain[index]
    rows = _rows(question, index, count, pairs=pairs)
    return replace(answer, plain=plain, rows=replace(rows, outputs=_outputs(answer, question)))


def own_answer(question: Question) -> Tensor | None:  # [all rows, outputs]
    """What the network says by itself: inputs as they are seen, no dropout, all links there.

    None where one run on the whole graph would not fit in the memory, and where the network can be
    followed by rules but not be run.
    """
    if RoomForPasses(question).tall:
        return None
    try:
        held = question.only()
        most = question.room // PART_FOR_MESSAGES
        with (
            opened_network(held) as network,
            summed_messages(held.model, network.weights, above=most),
        ):
            return probabilities(network.once({}), question.task)
    except Exception:  # whatever the user's code raises
        return None


def _count(answer: Prediction, question: Question) -> int:
    """Of all rows: who has no room for a whole run asks about the nodes of one large graph."""
    return len(answer.mean) if question.nodes is None else len(question.x.mean)


def _rows(question: Question, index: Tensor | None, count: int, *, pairs: bool) -> Rows:
    graph = question.graph
    if graph is None or pairs:
        return Rows(nodes=index)
    of_kind = isinstance(graph, StackedGraph)
    if not of_kind and count != graph.num_nodes:  # an answer for each of many graphs
        return Rows(nodes=index)
    names = _names(graph.get("node_names"))
    if names is not None and len(names) != count:
        names = None
    if of_kind:
        return Rows(index, names)
    trained_on = _mask(graph.get("train_mask"), count)
    return Rows(index, names, edge_index=links(graph), trained_on=trained_on)


def _outputs(answer: Prediction, question: Question) -> tuple[str, ...] | None:
    """Names of the classes or labels; of no and yes both."""
    graph, width = question.graph, 2 if answer.task == "binary" else answer.mean.shape[1]
    names = None if graph is None or answer.task == "regression" else graph.get("class_names")
    found = _names(names)
    return found if found is not None and len(found) == width else None


def _names(names: Any) -> tuple[str, ...] | None:
    if names is None or isinstance(names, str) or not isinstance(names, Iterable):
        return None
    return tuple(map(str, names))


def _mask(mask: Any, count: int) -> Tensor | None:  # [nodes] bool
    fits = isinstance(mask, Tensor) and mask.dtype == torch.bool and mask.shape == (count,)
    return mask if fits else None
