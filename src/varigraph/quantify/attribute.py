"""``vg.attribute``: which feature, neighbour or link causes the variance of one node."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence, Sized
from dataclasses import asdict, dataclass, field
from typing import Any, NamedTuple, TypeAlias

from torch import nn
from torch_geometric.data import Data

from varigraph.choices import Reading, Task
from varigraph.data import check_one_kind
from varigraph.errors import GraphError
from varigraph.moments.links import Coins
from varigraph.options import whole
from varigraph.prediction.calling import Forward
from varigraph.prediction.network_call import guarded
from varigraph.prediction.predict import ask
from varigraph.prediction.sources.features import FEATURES
from varigraph.prediction.sources.links import LINKS
from varigraph.prediction.sources.source import SOURCES
from varigraph.quantify.slopes import (
    Causes,
    Scale,
    column_of,
    differentiable,
    feature_causes,
    jumps,
    leaves_of,
    link_causes,
    node_causes,
    number_of,
    outputs,
    place_of_node,
    scale_of,
    slopes,
    total_of,
)

#: Rows of each table, and lines of advice, that are printed; the fields hold more.
ROWS, ADVICE = 5, 5
#: A feature is named in the advice if it has this part of its node's variance; else the node is.
OUTSTANDING = 0.1


@dataclass(frozen=True)
class FeatureShare:
    """Variance that the noise of one feature of one node causes."""

    node: int
    feature: int
    variance: float
    share: float


@dataclass(frozen=True)
class NodeShare:
    """Variance that the noise of all features of one node causes."""

    node: int
    variance: float
    share: float


@dataclass(frozen=True)
class LinkShare:
    """Variance that the doubt about one link causes; ``both_ways`` if one coin is for both ways."""

    source: int
    target: int
    probability: float
    variance: float
    share: float
    both_ways: bool


Cause: TypeAlias = FeatureShare | NodeShare | LinkShare


@dataclass(frozen=True)
class Names:
    """What the data calls its nodes, features and classes; their numbers where it does not say."""

    nodes: Sequence[Any] | None = None
    features: Sequence[Any] | None = None
    classes: Sequence[Any] | None = None

    def of(self, cause: Cause) -> str:
        """A cause in words."""
        if isinstance(cause, FeatureShare):
            return f"feature {_name(self.features, cause.feature)} of {self.node(cause.node)}"
        if isinstance(cause, NodeShare):
            return self.node(cause.node)
        ends = (_name(self.nodes, cause.source), _name(self.nodes, cause.target))
        return f"link {(' - ' if cause.both_ways else ' -> ').join(ends)}"

    def node(self, node: int) -> str:
        """A node in words."""
        return f"node {_name(self.nodes, node)}"

    def answer(self, output: int, of: Scale) -> str:
        """The number that is asked about in words."""
        return f"output {output}" if of == "value" else f"{of} of class {self.output(output)}"

    def output(self, output: int) -> str:
        """A class in words."""
        return _name(self.classes, output)


@dataclass(frozen=True)
class Attribution:
    r"""The variance of one node's answer and its causes, largest first, to first order.

    .. math::
        \text{variance} = \sum_{w,k} \text{features}_{wk} + \sum_{l} \text{links}_l

    ``nodes`` divides the first sum in another way: all features of a node together. The lists hold
    the largest causes that there are; what is not listed is in ``rest``, so that each list and its
    rest add up. Shares are of ``variance``, 0 to 1.

    Args:
        node: whose answer it is.
        output: which of its outputs: the class, the label, or the column in regression.
        of: the scale: ``"probability"``, ``"logit"`` or, in regression, ``"value"``.
        value: the answer itself, features and coins at their means, or all links there.
        variance: its variance due to the data.
        by_source: the variance due to ``features`` and to ``links``.
        features: single features of single nodes.
        nodes: nodes, all of their features together.
        links: links.
        rest: variance that is not listed, of ``features``, ``nodes`` and ``links``.
        names: what to call them in print.
    """

    node: int
    output: int
    of: Scale
    value: float
    variance: float
    by_source: Mapping[str, float]
    features: tuple[FeatureShare, ...]
    nodes: tuple[NodeShare, ...]
    links: tuple[LinkShare, ...]
    rest: Mapping[str, float]
    names: Names = field(default_factory=Names, repr=False, compare=False)

    def to_dict(self) -> dict[str, Any]:
        """Everything as plain numbers, lists and dicts, ready for JSON."""
        plain = ("node", "output", "of", "value", "variance")
        lists = (FEATURES, "nodes", LINKS)
        return {
            **{name: getattr(self, name) for name in plain},
            "by_source": dict(self.by_source),
            **{name: [asdict(entry) for entry in getattr(self, name)] for name in lists},
            "rest": dict(self.rest),
        }

    def __str__(self) -> str:
        what = f"{self.names.node(self.node)}, {self.names.answer(self.output, self.of)}"
        std = math.sqrt(self.variance)
        head = f"{what}: {self.value:.4g} ± {std:.2g} (variance {self.variance:.3g}, first order)"
        tables = (
            self._table(FEATURES, self.features),
            self._table("nodes, all features together", self.nodes),
            self._table(LINKS, self.links),
        )
        return "\n".join([head, *(line for table in tables for line in table), *self._advice()])

    def _table(self, title: str, causes: Sequence[Cause]) -> list[str]:
        if not causes:
            return []
        rows = [_Row(cause.share, cause.variance, self.names.of(cause)) for cause in causes[:ROWS]]
        total = self.by_source[LINKS if title == LINKS else FEATURES]
        left = total - math.fsum(row.variance for row in rows)
        if left > 1e-12 * total:  # what is left of a sum of rounded numbers is not a cause
            rows.append(_Row(left / self.variance, left, "all others"))
        lines = [f"{_percent(row.share):>8}  {row.variance:>9.3g}  {row.what}" for row in rows]
        return ["", f"{'share':>8}  {'variance':>9}  {title}", *lines]

    def _advice(self) -> list[str]:
        if self.variance == 0:
            return ["nothing in the data makes this answer uncertain, to first order"]
        worst = sorted(self._causes(), key=lambda cause: -cause.share)
        advice = [cause for cause in worst[:ADVICE] if cause is worst[0] or cause.share >= 0.01]
        lines = [f"{self._remedy(cause)} ({_percent(cause.share)})" for cause in advice]
        return [
            "",
            *(line.removesuffix(")") + " of the variance)" for line in lines[:1]),
            *lines[1:],
        ]

    def _causes(self) -> Iterator[Cause]:
        """Links, features that stand out in their node, and nodes in which none does."""
        yield from self.links
        standing_out = {node.node: OUTSTANDING * node.share for node in self.nodes}
        single = [f for f in self.features if f.share >= standing_out.get(f.node, 0)]
        yield from single
        named = {feature.node for feature in single}
        yield from (node for node in self.nodes if node.node not in named)

    def _remedy(self, cause: Cause) -> str:
        if isinstance(cause, LinkShare):
            return f"verify: {self.names.of(cause)}"
        all_of_it = "all of " if isinstance(cause, NodeShare) else ""
        return f"measure again: {all_of_it}{self.names.of(cause)}"


class _Row(NamedTuple):
    share: float
    variance: float
    what: str


def _name(names: Sequence[Any] | None, place: int) -> str:
    return str(place if names is None else names[place])


def _percent(share: float) -> str:
    return f"{100 * share:.0f} %" if share >= 0.01 else f"{100 * share:.1g} %"


def attribute(
    model: nn.Module,
    data: Data,
    node: int | str,
    *,
    output: int | None = None,
    of: Scale | None = None,
    links: Reading = "removed",
    task: Task = "classification",
    forward: Forward | None = None,
    top: int = 20,
) -> Attribution:
    r"""The variance of one node's answer, divided over what caused it, largest first.

    .. math::
        V[y] \approx \sum_{w,k} \sigma_{wk}^2 \left(\frac{\partial y}{\partial x_{wk}}\right)^2
            + \sum_{\{u,v\}} p (1 - p) \left(y - y_{-uv}\right)^2

    with the noise variance :math:`\sigma_{wk}^2` of feature k of node w, and the answer
    :math:`y_{-uv}` for the graph without the link {u, v}, which is real with chance p: one coin for
    both directions where their chances agree. It says what to measure again and which link to
    verify. Slopes are derivatives at ``x``, with all links there, by automatic differentiation
    through any differentiable model. With ``links="bernoulli"`` links have slopes too, by their
    coins as weights of messages, at p. It is about the data: dropout is off.

    Exact for networks that are linear in the features, on the scale of the logits. Else it is the
    first order: what curvature does, and what noise and links or two links do together, is in
    :func:`varigraph.predict` only. The cost is a forward and a backward pass, and a forward pass
    for every doubtful link that the answer can depend on.

    Args:
        model: any trained network of torch_geometric; it is as before afterwards.
        data: the graph, with ``x_var``, ``edge_prob`` or both, as for :func:`varigraph.predict`.
            Where it has ``node_names``, ``feature_names`` or ``class_names``, they are printed.
        node: whose answer to explain, by its number or by its name in ``data.node_names``.
        output: the class or label, the likeliest by default; in regression the column.
        of: ``"probability"`` (default) or ``"logit"`` of the class; in regression ``"value"``.
        links: how ``edge_prob`` is read, as for :func:`predict`; a ``"weight"`` is no cause.
        task: what the model's output means, as in :func:`varigraph.predict`.
        forward: how to call the model, ``forward(model, x, data)``, where ``model(x, edge_index)``
            is not what it wants.
        top: how many features, nodes and links to list; the others are added up.

    Returns:
        An :class:`Attribution`; print it for a table with advice.

    Raises:
        GraphError: the graph cannot be right, or nothing about it is uncertain.
        ModelError: the model does not fit the graph, or cannot be differentiated.
        OptionError: an option has a value that makes no sense.

    Example:
        >>> import varigraph as vg
        >>> noisy = vg.add_noise(vg.load("cora"), percent=12)
        >>> blame = vg.attribute(vg.paper_network(noisy), noisy, node=7)
        >>> blame.node, blame.of, len(blame.features), blame.variance > 0
        (7, 'probability', 20, True)
    """
    scale = scale_of(task, of)
    top = whole("top", top, remedy="top=20")
    check_one_kind(data)
    question = ask(model, data, links=links, task=task, forward=forward, samples=0)
    place, x = place_of_node(node, data), question.x.mean
    with guarded(question.model, question.run, x), differentiable(question) as network:
        leaves = leaves_of(question)
        rows = outputs(network, leaves)
        # In float64, or the probabilities of sure answers lose their slopes.
        row = rows[place].cpu().double()
        column = column_of(output, row, scale)
        number = number_of(row, column, scale, task)
        slope = slopes(number, {name: leaf.value for name, leaf in leaves.items()})
        jump = jumps(network, lambda row: number_of(row, column, scale, task), place)
    coins = None if question.links is None else question.links.coins
    return _attribution(
        feature_causes(slope.get(FEATURES), question.x.var),
        link_causes(slope.get(LINKS, jump), coins),
        {name: total_of(slope[name], leaf.variance) for name, leaf in leaves.items()},
        coins,
        top,
        node=place,
        output=column,
        of=scale,
        value=float(number.detach()),
        names=_names(data, len(row), task),
    )


def _attribution(
    features: Causes,
    links: Causes,
    by_source: dict[str, float],
    coins: Coins | None,
    top: int,
    **about: Any,
) -> Attribution:
    """The largest causes with their shares, and the rest; ``about`` is what they are causes of."""
    nodes = node_causes(features)
    by_source = {**by_source, FEATURES: features.total, LINKS: links.total}
    variance = sum(by_source.values())
    return Attribution(
        **about,
        variance=variance,
        by_source={name: by_source[name] for name in SOURCES if name in by_source},
        features=tuple(
            FeatureShare(node, feature, part, part / variance)
            for (node, feature), part in features.largest(top)
        ),
        nodes=tuple(NodeShare(node, part, part / variance) for (node,), part in nodes.largest(top)),
        links=tuple(
            _link_share(coins, coin, part, part / variance)
            for (coin,), part in links.largest(top)
            if coins is not None
        ),
        rest={
            FEATURES: features.rest(top),
            "nodes": nodes.rest(top),
            LINKS: links.rest(top),
        },
    )


def _link_share(coins: Coins, coin: int, variance: float, share: float) -> LinkShare:
    return LinkShare(
        source=int(coins.source[coin]),
        target=int(coins.target[coin]),
        probability=float(coins.prob[coin]),
        variance=variance,
        share=share,
        both_ways=bool(coins.both_ways[coin]),
    )


def _names(data: Data, outputs: int, task: Task) -> Names:
    (nodes, features), classes = data.x.shape, None
    if task != "regression":
        classes = ["yes"] if task == "binary" else _checked(data, "class_names", outputs)
    of_nodes = _checked(data, "node_names", nodes)
    return Names(of_nodes, _checked(data, "feature_names", features), classes)


def _checked(data: Data, field: str, count: int) -> Sequence[Any] | None:
    names: Sequence[Any] | None = data.get(field)
    if names is not None and not isinstance(names, Sized):
        raise GraphError(f"{field} is a {type(names).__name__}", f"give a list of {count} names")
    if names is not None and len(names) != count:
        raise GraphError(
            f"{field} has {len(names)} entries for {count}", f"give {count}, or del data.{field}"
        )
    return names
