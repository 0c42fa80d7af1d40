"""Links that may not be real (AU2)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from varigraph.errors import MissingRuleError, ModelError, VarigraphError
from varigraph.moments import Gaussian
from varigraph.moments.affine import Affine
from varigraph.prediction.first_order.carried_noise import (
    CarriedNoise,
    carried_noise,
    from_carried_noise,
    lost_coins,
    returning_noise,
)
from varigraph.prediction.first_order.coins import (
    CoinSum,
    bytes_of_coins,
    bytes_of_walks,
    coin_sums,
    from_coins,
    shift_of_mean,
)
from varigraph.prediction.first_order.responses import Responses
from varigraph.prediction.first_order.shares import Block, Share
from varigraph.prediction.linearised import one_pass
from varigraph.prediction.sampled.removed import without_links
from varigraph.prediction.sources.source import INTERACTIONS, Drawn, Leaf, Source

if TYPE_CHECKING:
    from torch_geometric.data import Data

    from varigraph.moments import LinkProbabilities
    from varigraph.prediction.first_order.method import FirstOrder
    from varigraph.prediction.first_order.row_costs import RowCosts
    from varigraph.prediction.masks import Site
    from varigraph.prediction.question import Question
    from varigraph.prediction.sampled.network import Inputs, Network
    from varigraph.prediction.sampled.removed import RemovedLinks
    from varigraph.prediction.sampled.shortcuts import Trial

#: Graphs that are looked at, at most, to see whether rules make of links what the model does.
GRAPHS_LEFT = 3
#: Relative error of sums over links in double precision, some of which are integrals.
INEXACT = 1e-8


class Links(Source):
    """``data.edge_prob``: a coin for every link, which takes it or its message away."""

    name = "links"
    field = "edge_prob"
    places_noise = False  # coins tie together all places where a link occurs
    in_small_space = True
    remedy = "check its links"

    def held(self, question: Question) -> Question:  # noqa: D102
        links = question.links
        if links is None or links.reading == "removed":  # none is half removed: all are there
            return replace(question, links=None)
        return replace(question, links=links.held_at_mean())

    def uncertain(self, question: Question) -> bool:  # noqa: D102
        return question.links is not None and question.links.uncertain

    def share(self, network: FirstOrder) -> CoinShare:  # noqa: D102
        return CoinShare(self.name, network)

    def check_rules(self, question: Question) -> None:  # noqa: D102
        links, graph = question.links, question.graph
        if links is not None and graph is not None and links.reading == "removed":
            _check_links_left(question.only(self.name), links, graph)

    def check(self, trial: Trial) -> None:  # noqa: D102
        if trial.network.removed is not None:
            _check_graph_is_used(trial, trial.network.removed)
        elif trial.network.weights is not None and not trial.network.weights.met:
            raise ModelError(
                "the graph has link probabilities, but no message-passing layer used them",
                "pass messages with layers of torch_geometric, or leave data.edge_prob out",
            )

    def draw(self, network: Network, sample: int, sites: Sequence[Site]) -> Drawn:  # noqa: D102
        assert network.links is not None  # coins are drawn only where links have chances
        draw = partial(network.links.draw, seed=network.question.seed)
        return {"coins": network.known("coins", sample, draw)}

    def draws(  # noqa: D102
        self, network: Network, samples: Sequence[int], sites: Sequence[Site]
    ) -> Drawn:
        assert network.links is not None
        return {"coins": network.links.draws(samples, seed=network.question.seed)}

    def use(self, inputs: Inputs, drawn: Drawn) -> None:  # noqa: D102
        inputs.coins = drawn["coins"]

    def reaches(self, *, coins: bool) -> bool:  # noqa: D102
        return coins

    def bytes_of_draw(self, network: Network) -> int:  # noqa: D102
        return 0 if network.removed is None else network.removed.bytes

    def leaf(self, question: Question) -> Leaf | None:  # noqa: D102
        if question.links is None or question.links.reading == "removed":  # it jumps: no slope
            return None
        coins = question.links.coins
        weight = coins.prob.to(question.x.mean.dtype).detach().clone().requires_grad_()
        variance = coins.prob.double() * (1 - coins.prob.double())
        # Both directions take the same entry, so that its slope is that of the coin.
        return Leaf(weight, variance, {"coins": weight[coins.of_edge]})


def _check_graph_is_used(trial: Trial, removed: RemovedLinks) -> None:
    """Raises if the links that the model is called with are not looked at, and do not matter."""
    if trial.first.used:
        return
    whole, _ = trial.on_links(None)
    try:
        bare, used = trial.on_links(removed.without_doubt)
    except VarigraphError:
        raise
    except Exception:  # a graph that is hardly ever drawn: some links are enough
        bare, used = trial.on_links(removed.draw(0, seed=trial.network.question.seed))
    if not used and torch.equal(whole, bare):
        raise ModelError(
            "links are uncertain, but the answer is the same without them: it does not depend on "
            "the graph that the model is called with",
            "let forward= and the model use the links that they are given, not those of a graph "
            "or a cache that was kept; or leave data.edge_prob out",
        )


def _check_links_left(question: Question, links: LinkProbabilities, graph: Data) -> None:
    """Raises if rules do not see all that the model makes of links which may be removed.

    On links of which some are there for certain and the others not at all, they must give what they
    give on the graph that is left. A model that counts neighbours by itself does not. Where a norm
    makes much of the last digits on such a graph, another is looked at.
    """
    coins, generator = links.coins, torch.Generator().manual_seed(0)
    for _ in range(GRAPHS_LEFT):
        tossed = torch.rand(len(coins.prob), generator=generator).to(coins.prob)
        present = (tossed < coins.prob)[coins.of_edge]
        fewer = without_links(graph, present, links)
        told = replace(question, links=links.drawn(present.to(coins.prob)))
        left = replace(question, links=None, run=partial(_on_graph, question, fewer))
        by_rules, itself = (one_pass(each, exact=False).output.mean for each in (told, left))
        if by_rules.shape != itself.shape:
            break
        off = float((by_rules - itself).abs().max())
        if off <= 1e-3 * float(itself.abs().max()):
            return
        if off > 10 * _moved_by_last_digits(left, itself):
            break
    raise MissingRuleError(
        "the model makes more of its links than its layers do: closed forms do not see what "
        "becomes of that where links are removed",
        'method="sampled", or links="bernoulli", which silences messages and removes no link',
    )


def _on_graph(question: Question, graph: Data, x: Any) -> Any:
    return question.run(x, graph)


def _moved_by_last_digits(question: Question, answer: Tensor) -> float:
    """How far an answer moves with the last digits of the features."""
    x = question.x
    last = max(INEXACT, 4 * torch.finfo(x.mean.dtype).eps) * torch.ones_like(x.mean)
    last[::2] *= -1
    shaken = replace(question, x=Gaussian(x.mean * (1 + last), x.var))
    return float((one_pass(shaken, exact=False).output.mean - answer).abs().max())


class CoinShare(Share):
    """The share of the coins, of walks back over their links, and of noise that they stop."""

    @cached_property
    def sums(self) -> list[CoinSum]:
        """Sums over uncertain links."""
        return coin_sums(self.network.whole.tape)

    @cached_property
    def carried(self) -> list[tuple[CoinSum, CarriedNoise]]:
        """What noise each of them carries."""
        tape, budget = self.network.whole.tape, self.network.budget
        alone = [share.messages for share in self.network.shares]
        return [(each, carried_noise(tape, alone, each, budget)) for each in self.sums]

    @cached_property
    def together(self) -> list[tuple[CoinSum, CarriedNoise]]:
        """What two coins do in sums that follow each other."""
        tape, budget = self.network.whole.tape, self.network.budget
        found = [(each, lost_coins(tape, each, self.sums, self.prob, budget)) for each in self.sums]
        return [(each, noise) for each, noise in found if noise is not None]

    @cached_property
    def returns(self) -> list[tuple[CoinSum, Affine, Tensor]]:
        """What noise comes back to a node over the link that it went out on."""
        tape = self.network.whole.tape
        return [(each, *back) for each in self.sums for back in returning_noise(tape, each)]

    @property
    def prob(self) -> Tensor:  # [coins]
        """The chances of the coins."""
        assert self.network.question.links is not None  # there are no sums otherwise
        return self.network.question.links.coins.prob

    @cached_property
    def active(self) -> bool:  # noqa: D102
        return bool(self.sums) and bool((self.prob * (1 - self.prob)).any())

    @cached_property
    def interacts(self) -> bool:  # noqa: D102
        return any(noise.any for _, noise in self.carried)

    @property
    def wanted(self) -> set[int]:  # noqa: D102
        return {each.entry.value.number for each in self.sums}

    @cached_property
    def returning(self) -> set[int]:  # noqa: D102
        return {each.entry.value.number for each, _, _ in self.returns}

    @property
    def held(self) -> int:  # noqa: D102
        return bytes_of_coins(self.network.whole.tape)

    def cost(self, rank: int, costs: RowCosts) -> Tensor:  # noqa: D102
        return bytes_of_walks(costs, self.sums)

    def change(self, responses: Responses) -> None:
        """Walks over one link and back reach the features once more."""
        for coin_sum, leaf, matrix in self.returns:
            pairs = responses.of.get(coin_sum.entry.value.number)
            if pairs is not None:
                more = pairs.with_values(pairs.values @ matrix[pairs.column])
                responses.boundary.append((leaf, more))

    def add_to(self, block: Block) -> None:  # noqa: D102
        if self.sums:
            responses = block.responses
            block.mean = block.mean + shift_of_mean(responses, self.sums)
            block.shares[self.source] = from_coins(responses, self.sums, self.prob, len(block.rows))
            block.add(self.source, from_carried_noise(responses, self.together))
            block.add(INTERACTIONS, from_carried_noise(responses, self.carried))


LINKS = Links.name
