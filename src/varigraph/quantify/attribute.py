"""``vg.attribute``: which features, neighbours and links cause the variance of answers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Literal, overload

import torch
from torch import Tensor, nn
from torch_geometric.data import Data

from varigraph.choices import Reading, Task
from varigraph.data import check_one_kind
from varigraph.data.graphs import called
from varigraph.errors import MissingRuleError, OptionError
from varigraph.moments.links import Coins
from varigraph.options import one_of, whole
from varigraph.prediction.calling import Forward
from varigraph.prediction.first_order.method import FirstOrder
from varigraph.prediction.network_call import guarded
from varigraph.prediction.predict import ask
from varigraph.prediction.prediction import Prediction
from varigraph.prediction.question import Nodes, Question, check_nodes, chosen_nodes
from varigraph.prediction.sources.features import FEATURES
from varigraph.prediction.sources.links import LINKS
from varigraph.quantify.answered import (
    CLOSED,
    Answered,
    answered,
    predicted,
    scale_of,
    without_dropout_notice,
)
from varigraph.quantify.attribution import Attribution
from varigraph.quantify.effects import Divider
from varigraph.quantify.graph_attribution import GraphAttribution
from varigraph.quantify.shares import (
    ColumnShare,
    FeatureShare,
    LinkShare,
    Names,
    NodeShare,
    Scale,
)
from varigraph.quantify.slopes import Causes, by_slopes, causes_at

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
    samples: int = 100,
    seed: int = 0,
    task: Task | None = None,
    forward: Forward | None = None,
    dropout: float | None = None,
    memory: int | str = "1GiB",
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
    samples: int = 100,
    seed: int = 0,
    task: Task | None = None,
    forward: Forward | None = None,
    dropout: float | None = None,
    memory: int | str = "1GiB",
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
    samples: int = 100,
    seed: int = 0,
    task: Task | None = None,
    forward: Forward | None = None,
    dropout: float | None = None,
    memory: int | str = "1GiB",
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
        (542, (2708,))
    """
    method = one_of("method", method, ("auto", "first-order", "sampled"))
    top = whole("top", top, remedy="top=20")
    check_one_kind(data)
    if node is not None and nodes is not None:
        raise OptionError("both node and nodes are given", "node=7 alone, or nodes=[7, 8] alone")
    task = task or ("classification" if prediction is None else prediction.task)
    scale = scale_of(task, of)
    place = None if node is None else _place_of(node, data)
    question = ask(
        model,
        data,
        links=links,
        samples=samples,
        seed=seed,
        task=task,
        forward=forward,
        dropout=dropout,
        memory=memory,
    )
    with guarded(question.model, question.run, question.x.mean):
        found = predicted(question, method) if prediction is None else prediction
        division = Division(question, data, found, top)
        if place is not None:
            return division.of_node(place, output, scale)
        asked = check_nodes(chosen_nodes(nodes, data), len(found.mean))
        return division.of_graph(asked, output, scale)


def _place_of(node: int | str, data: Data) -> int:
    """The node by its number, or by its name in ``data.node_names``."""
    if isinstance(node, str):
        return called([node], data)[0]
    last = len(data.x) - 1
    return whole("node", node, most=last, remedy=f"count from 0 to {last}")


@dataclass(eq=False)
class Division:
    """Answers, and the responses that divide their variance.

    Args:
        question: what is asked, of all nodes.
        data: the graph.
        found: what ``predict`` says.
        top: how many causes to list.
    """

    question: Question
    data: Data
    found: Prediction
    top: int

    @cached_property
    def network(self) -> FirstOrder | None:
        """The linearised network; None where the answers were drawn."""
        if not self.found.method.startswith(CLOSED):
            return None
        with torch.no_grad(), without_dropout_notice():
            return FirstOrder.of(self.question)

    @cached_property
    def coins(self) -> Coins | None:
        """Of the links in doubt."""
        return None if self.question.links is None else self.question.links.coins

    @cached_property
    def names(self) -> Names:
        """What to call nodes, features and classes."""
        return Names.from_data(self.data, self.found.mean.shape[1], self.question.task)

    def of_node(self, node: int, output: int | None, scale: Scale) -> Attribution:
        """One answer."""
        names = self.names
        answers = answered(self.found, torch.tensor([node]), self.network, scale)
        chosen = answers.output(output)
        column = int(answers.mean[0].argmax()) if chosen is None else chosen
        by_source = {part: float(var[0, column]) for part, var in answers.by_source.items()}
        features, links = self._causes(answers, node, column)
        features = features.adding_up_to(by_source[FEATURES])
        links = links.adding_up_to(by_source[LINKS])
        variance, nodes = float(answers.variance[0, column]), features.by_node()
        errors = answers.std_error
        return Attribution(
            node=node,
            output=column,
            of=scale,
            value=float(answers.mean[0, column]),
            variance=variance,
            by_source=by_source,
            features=tuple(
                FeatureShare(where, feature, part, part / variance)
                for (where, feature), part in features.largest(self.top)
            ),
            nodes=_node_shares(nodes, variance, self.top),
            links=self._links(links, variance),
            rest={
                FEATURES: features.rest(self.top, by_source[FEATURES]),
                "nodes": nodes.rest(self.top, by_source[FEATURES]),
                LINKS: links.rest(self.top, by_source[LINKS]),
            },
            method=answers.method,
            std_error=None
            if errors is None
            else {part: float(error[0, column]) for part, error in errors.items()},
            names=names,
        )

    @torch.no_grad()
    def _causes(self, answers: Answered, node: int, output: int) -> tuple[Causes, Causes]:
        """Features and coins by the responses of the closed form, or by slopes."""
        if self.network is None:
            return by_slopes(self.question, node, output, answers.scale)
        divider = Divider(self.network)
        responses = divider.responses(answers.rows.to(self.network.rows.device))
        along = answers.directions(slice(None))[:, output : output + 1]
        coins = divider.of_coins(responses, along)
        links = causes_at(coins.place[:, None], coins.variance[:, 0])
        if not self.question.noisy:
            return causes_at(coins.place.new_zeros(0, 2), coins.variance.new_zeros(0)), links
        found = divider.of_features(responses, along)
        width = self.question.x.mean.shape[1]
        place = torch.stack([found.place // width, found.place % width], 1)
        return causes_at(place, found.variance[:, 0]), links

    @torch.no_grad()
    def of_graph(
        self, nodes: Tensor | None, output: int | None, scale: Scale
    ) -> GraphAttribution:  # [rows]
        """All answers together, or those of some nodes."""
        names, question = self.names, self.question
        if self.network is None:
            raise MissingRuleError(
                "all answers together are divided in closed form, and here there is none: "
                f"{self.found.method}",
                "ask node by node: vg.attribute(model, data, node=0)",
            )
        answers = answered(self.found, nodes, self.network, scale)
        output = answers.output(output)
        chosen = slice(None) if output is None else slice(output, output + 1)
        wholes = {part: var[:, chosen] for part, var in answers.by_source.items()}
        by_node, by_feature, coins = self._added_up(self.network, answers, chosen, wholes)
        variance = float(answers.variance[:, chosen].sum())
        errors = answers.std_error
        return GraphAttribution(
            answers=len(answers.mean),
            output=output,
            of=scale,
            variance=variance,
            by_source={part: float(var.sum()) for part, var in wholes.items()},
            by_node=by_node.to(question.x.mean),
            by_feature=by_feature.to(question.x.mean),
            by_link=self._by_edge(coins),
            nodes=_node_shares(_all(by_node), variance, self.top),
            features=tuple(
                ColumnShare(feature, part, part / variance)
                for (feature,), part in _all(by_feature).largest(self.top)
            ),
            links=self._links(_all(coins), variance),
            method=answers.method,
            std_error=None
            if errors is None
            else {part: float(e[:, chosen].square().sum().sqrt()) for part, e in errors.items()},
            names=names,
        )

    def _added_up(
        self, network: FirstOrder, answers: Answered, chosen: slice, wholes: Mapping[str, Tensor]
    ) -> tuple[Tensor, Tensor, Tensor]:  # [nodes], [features], [coins]
        """What each node, feature and coin causes in all answers, block of nodes by block."""
        x, coins = self.question.x.mean, 0 if self.coins is None else len(self.coins.prob)
        found = [x.new_zeros(size, dtype=torch.float64) for size in (*x.shape, coins)]
        divider, first = Divider(network), 0
        for rows in divider.blocks(answers.rows.to(x.device)):
            here = slice(first, first := first + len(rows))
            responses = divider.responses(rows)
            along = answers.directions(here)[:, chosen]
            if self.question.noisy:
                effects, by_feature = divider.of_nodes(responses, along, wholes[FEATURES][here])
                found[0] += effects.by_place(len(x))
                found[1] += by_feature
            tossed, _ = divider.of_coins(responses, along).adding_up_to(wholes[LINKS][here])
            found[2] += tossed.by_place(coins)
        return found[0], found[1], found[2]

    def _by_edge(self, coins: Tensor) -> Tensor | None:  # [coins] -> [edges]
        """What each listed link causes: its coin's, over all places where that is listed."""
        if self.coins is None:
            return None
        listed = torch.bincount(self.coins.of_edge, minlength=len(coins))
        return (coins / listed)[self.coins.of_edge].to(self.question.x.mean)

    def _links(self, links: Causes, variance: float) -> tuple[LinkShare, ...]:
        coins = self.coins
        if coins is None:
            return ()
        return tuple(
            LinkShare(
                source=int(coins.source[coin]),
                target=int(coins.target[coin]),
                probability=float(coins.prob[coin]),
                variance=part,
                share=part / variance,
                both_ways=bool(coins.both_ways[coin]),
            )
            for (coin,), part in links.largest(self.top)
        )


def _node_shares(causes: Causes, variance: float, top: int) -> tuple[NodeShare, ...]:
    found = causes.largest(top)
    return tuple(NodeShare(node, part, part / variance) for (node,), part in found)


def _all(variance: Tensor) -> Causes:  # [places]
    """A cause at every place that causes anything."""
    return causes_at(torch.arange(len(variance), device=variance.device)[:, None], variance)
