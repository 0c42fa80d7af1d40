"""Dividing what ``predict`` says of answers over single features, nodes and links."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor
from torch_geometric.data import Data

from varigraph.errors import MissingRuleError
from varigraph.moments.links import Coins
from varigraph.prediction.auto import FEW_VALUES, UNDER_MASKS, reason_to_draw
from varigraph.prediction.first_order.method import FirstOrder
from varigraph.prediction.prediction import Prediction
from varigraph.prediction.question import Question
from varigraph.prediction.sources.features import FEATURES
from varigraph.prediction.sources.links import LINKS
from varigraph.quantify.answered import CLOSED, Answered, answered, without_dropout_notice
from varigraph.quantify.attribution import Attribution
from varigraph.quantify.effects import Divider
from varigraph.quantify.graph_attribution import GraphAttribution
from varigraph.quantify.shares import ColumnShare, FeatureShare, LinkShare, Names, NodeShare, Scale
from varigraph.quantify.slopes import Causes, by_slopes, causes_at

#: What the names of methods start with that draw, though there may be a closed form.
DRAWN_ALL_THE_SAME = tuple(f"sampled: {why}" for why in (FEW_VALUES, UNDER_MASKS))


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
        """The linearised network; None where answers were drawn for want of a closed form."""
        if not self.found.method.startswith((CLOSED, *DRAWN_ALL_THE_SAME)):
            return None
        try:
            with torch.no_grad(), without_dropout_notice():
                network = FirstOrder.of(self.question)
                if not self.found.method.startswith(CLOSED):
                    network.block(network.rows[:1])  # not all that has rules has responses
                return network
        except Exception as error:
            if reason_to_draw(error, self.question) is None:
                raise
            return None

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
                "ask about one node, node=0; where every layer has a rule, "
                'method="first-order" divides what the rules say',
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
