"""``vg.attribute``: which features, neighbours and links cause the variance of answers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Literal, overload

from torch import nn
from torch_geometric.data import Data

from varigraph.choices import Reading, Task
from varigraph.data import check_one_kind
from varigraph.data.graphs import called
from varigraph.errors import OptionError
from varigraph.options import one_of, whole
from varigraph.prediction.calling import Forward
from varigraph.prediction.network_call import guarded
from varigraph.prediction.predict import ask
from varigraph.prediction.prediction import Prediction
from varigraph.prediction.question import Nodes, check_nodes, chosen_nodes
from varigraph.quantify.answered import predicted, refuse_certain, scale_of
from varigraph.quantify.attribution import Attribution
from varigraph.quantify.division import Division
from varigraph.quantify.graph_attribution import GraphAttribution
from varigraph.quantify.shares import Scale

Method = Literal["auto", "first-order", "sampled"]


@overload
def attribute(
    model: nn.Module,
    data: Data,
    node: int | str,
    *,
    nodes: None = None,
    output: int | None = None,
    of: Scale | None = None,
    method: Method = "auto",
    links: Reading = "removed",
    sources: Sequence[str] | None = None,
    samples: int = 100,
    seed: int = 0,
    task: Task | None = None,
    forward: Forward | None = None,
    dropout: float | None = None,
    memory: int | str = "half",
    prediction: Prediction | None = None,
    top: int = 20,
) -> Attribution: ...
@overload
def attribute(
    model: nn.Module,
    data: Data,
    node: None = None,
    *,
    nodes: Nodes | None = None,
    output: int | None = None,
    of: Scale | None = None,
    method: Method = "auto",
    links: Reading = "removed",
    sources: Sequence[str] | None = None,
    samples: int = 100,
    seed: int = 0,
    task: Task | None = None,
    forward: Forward | None = None,
    dropout: float | None = None,
    memory: int | str = "half",
    prediction: Prediction | None = None,
    top: int = 20,
) -> GraphAttribution: ...
def attribute(
    model: nn.Module,
    data: Data,
    node: int | str | None = None,
    *,
    nodes: Nodes | None = None,
    output: int | None = None,
    of: Scale | None = None,
    method: Method = "auto",
    links: Reading = "removed",
    sources: Sequence[str] | None = None,
    samples: int = 100,
    seed: int = 0,
    task: Task | None = None,
    forward: Forward | None = None,
    dropout: float | None = None,
    memory: int | str = "half",
    prediction: Prediction | None = None,
    top: int = 20,
) -> Attribution | GraphAttribution:
    r"""The variance of one node's answer, or of all answers, divided over what caused it.

    .. math::
        V[y] = \sum_{w,k} \text{features}_{wk} + \sum_{l} \text{links}_l
            + \text{weights} + \text{interactions}

    Value, variance and its parts are those of :func:`varigraph.predict` with the same options. The
    part of the features is divided over single features of single nodes, that of the links over
    single links, in proportion to what each of them causes to first order: its variance times the
    square of the answer's response. It says what to measure again, and which link to verify.

    Responses are those of the closed form: slopes averaged over all that is uncertain. Where a
    network has none and ``predict`` draws, they are derivatives at ``x`` by automatic
    differentiation and, of links that are removed, differences that single links make. The division
    is exact for networks that are linear in what is uncertain; elsewhere what several causes do
    together within a source is divided as what they do alone.

    Args:
        model: any trained network of torch_geometric; it is as before afterwards.
        data: the graph, with ``x_var``, ``edge_prob`` or both, as for :func:`varigraph.predict`.
            Where it has ``node_names``, ``feature_names`` or ``class_names``, they are printed.
        node: whose answer to explain, by its number or by its name in ``data.node_names``. Left
            out: all answers together, in closed form.
        nodes: without ``node``: those whose answers count, as for :func:`varigraph.predict`.
        output: the class, label or column. By default the likeliest class of one node, and all
            classes of all nodes.
        of: ``"probability"`` (default) or ``"logit"`` of the class; in regression ``"value"``.
        method: ``"auto"``, ``"first-order"`` or ``"sampled"``, as for :func:`varigraph.predict`.
        links: how ``edge_prob`` is read, as for :func:`predict`; a ``"weight"`` is no cause.
        sources: what to consider, as for :func:`varigraph.predict`; all by default.
        samples: dropout masks or draws, as for :func:`varigraph.predict`; 0 takes the weights as
            certain.
        seed: key of the draws, where there are any.
        task: what the model's output means, as in :func:`varigraph.predict`.
        forward: how to call the model, ``forward(model, x, data)``, where ``model(x, edge_index)``
            is not what it wants.
        dropout: rate of dropout to inject into a network that has none of its own.
        memory: bound on all that is added to the process.
        prediction: what :func:`varigraph.predict` said with the same options, if it is known: it is
            not asked again, and a calibrated one is divided as it is.
        top: how many features, nodes and links to list; the others are added up.

    Returns:
        An :class:`Attribution` of one answer, a :class:`GraphAttribution` of all; print it for
        tables with advice.

    Raises:
        GraphError: the graph cannot be right, or nothing about it is uncertain.
        MissingRuleError: all answers are asked about, and the network has no closed form.
        ModelError: the model does not fit the graph, or cannot be differentiated.
        OptionError: an option has a value that makes no sense.
        TooLargeError: the work does not fit in ``memory``.

    Example:
        >>> import varigraph as vg
        >>> noisy = vg.add_noise(vg.load("cora"), percent=12)
        >>> model = vg.paper_network(noisy)
        >>> blame = vg.attribute(model, noisy, node=7)
        >>> blame.node, blame.of, len(blame.features), blame.variance > 0
        (7, 'probability', 20, True)
        >>> together = vg.attribute(model, noisy, nodes=noisy.test_mask)
        >>> together.answers, tuple(together.by_node.shape)
        (543, (2708,))
    """
    method = one_of("method", method, ("auto", "first-order", "sampled"))
    top = whole("top", top, remedy="top=20")
    check_one_kind(data)
    if node is not None and nodes is not None:
        raise OptionError("both node and nodes are given", "node=7 alone, or nodes=[7, 8] alone")
    if task is None:
        task = "classification" if prediction is None else prediction.task
    scale = scale_of(task, of)
    place = None if node is None else _place_of(node, data)
    question = ask(
        model,
        data,
        links=links,
        sources=sources,
        samples=samples,
        seed=seed,
        task=task,
        forward=forward,
        dropout=dropout,
        memory=memory,
    )
    with guarded(question.model, question.run, question.x.mean):
        found = predicted(question, method) if prediction is None else prediction
        refuse_certain(question, found)
        division = Division(question, data, found, top)
        if place is not None:
            return division.of_node(place, output, scale)
        asked = check_nodes(chosen_nodes(nodes, data), len(found.mean))
        return division.of_graph(asked, output, scale)


def attributions(
    model: nn.Module,
    data: Data,
    answers: Iterable[tuple[int, int]],
    *,
    links: Reading,
    task: Task,
    forward: Forward | None,
    prediction: Prediction | None = None,
) -> Iterator[Attribution]:
    """The same for many nodes and outputs, with the work that they share done once.

    Args:
        model: as for :func:`attribute`.
        data: the graph.
        answers: nodes and outputs.
        links: how ``edge_prob`` is read.
        task: what the model's output means.
        forward: how to call the model.
        prediction: what ``predict`` said, if it is known.
    """
    scale = scale_of(task, None)
    question = ask(model, data, links=links, task=task, forward=forward)
    with guarded(question.model, question.run, question.x.mean):
        found = predicted(question, "auto") if prediction is None else prediction
        division = Division(question, data, found, top=20)
        for node, output in answers:
            yield division.of_node(node, output, scale)


def _place_of(node: int | str, data: Data) -> int:
    """The node by its number, or by its name in ``data.node_names``."""
    if isinstance(node, str):
        return called([node], data)[0]
    last = len(data.x) - 1
    return whole("node", node, most=last, remedy=f"count from 0 to {last}")
