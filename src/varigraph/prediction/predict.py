"""``vg.predict``: error bars for a trained network."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import get_args

import torch
from torch import nn
from torch_geometric.data import Data, HeteroData

from varigraph.choices import Method, Reading, Task
from varigraph.data import check_graph, feature_variance
from varigraph.data.graph_parts import FIELDS
from varigraph.data.kinds import StackedGraph, only_kinds
from varigraph.errors import OptionError
from varigraph.moments import Gaussian, LinkProbabilities
from varigraph.options import check_progress, number, one_of, seed_of, whole
from varigraph.prediction.auto import auto
from varigraph.prediction.calling import Forward, Pairs, caller, check_call, pairs_of
from varigraph.prediction.covariance import covariance
from varigraph.prediction.diagonal import diagonal
from varigraph.prediction.first_order.method import first_order
from varigraph.prediction.memory import as_bytes
from varigraph.prediction.network_call import guarded
from varigraph.prediction.own_answer import beside_own
from varigraph.prediction.prediction import Prediction
from varigraph.prediction.question import (
    Nodes,
    Progress,
    Question,
    Weights,
    as_computed,
    check_answer,
    check_given,
    check_model,
    check_sources,
    chosen_nodes,
    is_coarse,
    silent,
)
from varigraph.prediction.sampled.method import sampled
from varigraph.prediction.sources.features import Features
from varigraph.prediction.sources.fields import Field
from varigraph.prediction.sources.links import Links
from varigraph.prediction.sources.source import (
    SOURCES,
    considered,
    fields_of_kinds,
    register,
)
from varigraph.prediction.sources.weights import Weights as WeightsSource

# All that can be uncertain, in the order in which it acts in a network.
for _source in (Features(), *map(Field, FIELDS), Links(), WeightsSource()):
    register(_source)
#: More would take days, and tell nothing that these do not.
MOST_SAMPLES = 10**7


def predict(
    model: nn.Module,
    data: Data | HeteroData,
    *,
    method: Method = "auto",
    links: Reading = "removed",
    sources: Sequence[str] | None = None,
    samples: int = 100,
    weights: Weights | None = None,
    seed: int = 0,
    task: Task | None = None,
    nodes: Nodes | None = None,
    forward: Forward | None = None,
    output: int | str | None = None,
    links_to_score: Pairs | None = None,
    dropout: float | None = None,
    memory: int | str = "half",
    progress: Progress | None = None,
) -> Prediction:
    r"""Mean and variance of a trained network's answer for every node.

    .. math::
        \text{total} = \frac{1}{T} \sum_t v_t + \frac{1}{T} \sum_t (m_t - \bar m)^2

    with the mean :math:`m_t` and variance :math:`v_t` of the answer under the t-th dropout mask.
    The model is neither retrained nor rewritten, and is as before afterwards.

    Args:
        model: any trained torch_geometric network.
        data: the graph. ``data.x_var`` is the variance of the noise in the features: a number,
            ``[features]``, ``[nodes, 1]`` or ``[nodes, features]``. ``data.edge_prob`` is the
            chance of each link to be real, ``[edges]``. ``data.edge_attr_var``,
            ``data.edge_weight_var`` and ``data.pos_var`` are variances of the noise in these
            fields, given as ``x_var`` is. All may be missing. A ``HeteroData`` has the first two
            for each kind: ``data["user"].x_var``, ``data["user", "buys", "item"].edge_prob``.
        method: ``"first-order"``: closed form with all correlations, within a few per cent of brute
            force. ``"covariance"``: one block of correlations per node. ``"diagonal"``: the paper's
            closed form, all numbers taken as independent: the right order of nodes, variances far
            too small. ``"sampled"``: brute force, exact for any model, with standard errors.
            ``"auto"``: first-order where it is right on the scale of the answer, else sampled, as
            class probabilities behind uncertain links are; the answer's ``method`` says which and
            why.
        links: how ``edge_prob`` is read. ``"removed"``: a coin per link; where it says no, the
            model answers for the graph without the link. ``"bernoulli"``: the coin silences the
            message, and leaves counts, degrees and attention as they were. ``"weight"``: Theorem 1
            as printed.
        sources: what to consider, some of ``"features"``, ``"links"``, ``"weights"`` and, where the
            graph has such noise, ``"edge_attr"``, ``"edge_weight"`` and ``"pos"``; by default all
            that the data and the model carry. What is left out is held at its mean: a link that may
            be removed is there. Of several kinds of nodes and links one can be named,
            ``"features:user"``, ``"links:buys"``: that kind's part alone.
        samples: number T of dropout masks, at least 2; 0 takes the weights as certain. With
            ``method="sampled"``: number of draws of everything, at least 2. Where ``"auto"`` draws
            because links or masks ask for it, it takes more if so few would not do.
        weights: dropout in closed form (``"closed-form"``, what ``"first-order"`` and
            ``"covariance"`` do) or by T masks (``"sampled"``, the paper's way, what the others do).
        seed: key of the masks. The same seed gives the same answer, whatever the memory.
        task: ``"classification"`` (softmax over the model's logits), ``"binary"`` (one logit per
            node, its sigmoid), ``"multilabel"`` (a sigmoid for each) or ``"regression"``. By
            default classification, and binary with ``links_to_score``.
        nodes: nodes to answer for, as indices, as a mask or by their names in ``data.node_names``;
            all by default.
        forward: how to call the model, ``forward(model, x, data)``. Without it the model is called
            as its parameters are named: ``model(x, edge_index)``, further fields of the graph
            (``edge_attr``, ``edge_weight``, ``edge_type``, ``batch``, ``pos``), ``model(data)``.
        output: place or key of the answer, of a model that returns several tensors: a kind of
            nodes, where there are several.
        links_to_score: pairs of nodes, ``[2, pairs]``, whose links are to be predicted: by
            ``model.decode(model.encode(...), pairs)``, where it has these, or the dot product of
            its answers for the two nodes. The rows of the answer are pairs then.
        dropout: rate of dropout to inject into a network that has none of its own.
        memory: bound on all that the prediction adds to the process, the answer included, such as
            ``"1GiB"``; by default half of what is free on a GPU, or of the machine's RAM. Large
            graphs are worked on in blocks of nodes; what cannot fit is refused before the work
            starts, with the amount that would do. The answer's ``memory`` says what it was.
        progress: called with the steps done and their number: masks, draws or nodes, as the method
            goes.

    Returns:
        A :class:`Prediction` with ``mean``, ``aleatoric``, ``epistemic``, ``total`` and ``logits``.

    Raises:
        GraphError: the graph, its noise or its link probabilities cannot be right.
        MissingRuleError: layers of the model have no rule; all of them are named.
        ModelError: model and graph do not fit together.
        OptionError: an option has a value that makes no sense.
        TooLargeError: the work does not fit in ``memory``.

    Example:
        >>> import varigraph as vg
        >>> graph = vg.load("cora")
        >>> model = vg.paper_network(graph)  # or any trained network
        >>> noisy = vg.add_noise(graph, percent=12, seed=0)
        >>> vg.predict(model, noisy, samples=10).total.shape
        torch.Size([2708, 7])
    """
    method = one_of("method", method, get_args(Method))
    question = ask(
        model,
        data,
        links=links,
        sources=sources,
        samples=samples,
        weights=weights,
        seed=seed,
        task=task,
        nodes=nodes,
        forward=forward,
        output=output,
        links_to_score=links_to_score,
        dropout=dropout,
        memory=memory,
        progress=progress,
    )
    check_masks(method, question)
    with guarded(question.model, question.run, question.x.mean):
        for source in considered(question):
            source.check_question(question)
        answer = METHODS[method](question)
        answer = beside_own(answer, question, pairs=links_to_score is not None)
        answer = replace(answer, memory=question.memory)
    check_answer(answer)
    if is_coarse(model, data):
        name, *reason = answer.method.split(": ", 1)
        answer = replace(answer, method=": ".join([f"{name}, in {answer.mean.dtype}", *reason]))
    return answer


@torch.inference_mode(False)
def ask(
    model: nn.Module,
    data: Data | HeteroData,
    *,
    links: Reading = "removed",
    sources: Sequence[str] | None = None,
    samples: int = 100,
    weights: Weights | None = None,
    seed: int = 0,
    task: Task | None = None,
    nodes: Nodes | None = None,
    forward: Forward | None = None,
    output: int | str | None = None,
    links_to_score: Pairs | None = None,
    dropout: float | None = None,
    memory: int | str = "half",
    progress: Progress | None = None,
) -> Question:
    """The question that :func:`predict` answers with these options; model and graph are checked."""
    samples = whole("samples", samples, most=MOST_SAMPLES, remedy="samples=100, or 0")
    check_progress(progress, "done", "total")
    chosen = check_sources(sources, data)
    check_graph(data)
    model, data = as_computed(model, data)
    if isinstance(data, HeteroData):
        data = StackedGraph.of(only_kinds(data, chosen, fields_of_kinds()), output)
    check_model(model, data)
    pairs = pairs_of(links_to_score, data)
    check_call(model, data, forward, pairs=pairs)
    given = {name: source.given(data) for name, source in SOURCES.items()}
    if sources is not None:
        check_given(chosen, given)
    if task is None:
        task = "classification" if pairs is None else "binary"
    question = Question(
        model=model,
        run=caller(model, data, forward, output=output, pairs=pairs),
        x=Gaussian(data.x, feature_variance(data)),
        links=_links(data, one_of("links", links, get_args(Reading))),
        sources=frozenset(SOURCES),
        samples=samples,
        seed=seed_of(seed),
        task=one_of("task", task, get_args(Task)),
        nodes=chosen_nodes(nodes, data),
        memory=as_bytes(memory, data.x.device),
        dropout=None if dropout is None else _rate(dropout),
        draws=samples,
        weights=None if weights is None else one_of("weights", weights, get_args(Weights)),
        progress=progress or silent,
        edges=data.num_edges,
        given=given,
        graph=data,
    )
    return question.only(*(name.partition(":")[0] for name in chosen))


def _links(data: Data, reading: Reading) -> LinkProbabilities | None:
    prob = data.get("edge_prob")
    if prob is None:
        return None
    if isinstance(data, StackedGraph):
        return _links_of_kinds(data, reading)
    links = LinkProbabilities(data.edge_index, prob.to(data.x.dtype), len(data.x), reading)
    return links if links.uncertain or reading != "removed" else None


def _links_of_kinds(data: StackedGraph, reading: Reading) -> LinkProbabilities | None:
    if reading != "removed":
        raise OptionError(
            f"links={reading!r} is about messages between nodes of one kind", 'links="removed"'
        )
    links = LinkProbabilities(data.coin_ends, data.edge_prob, data.coin_nodes, reading)
    return links if links.uncertain else None


def _rate(dropout: float) -> float:
    remedy = "give a number between 0 and 1: dropout=0.1"
    return number("dropout", dropout, lambda rate: 0 < rate < 1, remedy=remedy)


def check_masks(method: str, question: Question) -> None:
    """Raises if masks are to be drawn and there cannot be any, or only one."""
    if method == "sampled" and question.weights == "closed-form":
        raise OptionError(
            'method="sampled" draws its masks', 'weights="sampled", or another method'
        )
    drawn = question.weights or ("sampled" if method == "diagonal" else "closed-form")
    if drawn == "sampled" and question.masked and question.samples == 1:
        raise OptionError(
            "samples=1 is too few: one dropout mask has no spread, and the variance due to the "
            "weights would be 0",
            "samples=100, any number from 2 on, or samples=0 to take the weights as certain",
        )


METHODS: dict[str, Callable[[Question], Prediction]] = {
    "auto": auto,
    "first-order": first_order,
    "covariance": covariance,
    "diagonal": diagonal,
    "sampled": sampled,
}
