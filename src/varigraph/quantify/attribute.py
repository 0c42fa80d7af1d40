"""``vg.attribute``: which feature, neighbour or link to blame for one node's variance."""

from __future__ import annotations

from collections.abc import Sequence, Sized
from typing import Any

from torch import Tensor, nn
from torch_geometric.data import Data

from varigraph.data.graph_parts import called
from varigraph.errors import GraphError, OptionError
from varigraph.moments.coins import Coins
from varigraph.moments.links import Reading
from varigraph.options import one_of, whole
from varigraph.prediction.network_call import Forward, guarded
from varigraph.prediction.predict import ask
from varigraph.prediction.prediction import Task
from varigraph.prediction.sources.features import FEATURES
from varigraph.prediction.sources.links import LINKS
from varigraph.prediction.sources.source import SOURCES
from varigraph.quantify.attribution import (
    Attribution,
    FeatureShare,
    LinkShare,
    Names,
    NodeShare,
    Scale,
)
from varigraph.quantify.causes import Causes, feature_causes, link_causes, node_causes, total_of
from varigraph.quantify.slopes import differentiable, leaves_of, outputs, slopes

#: What the number asked about can be, the default first.
SCALES: dict[Task, tuple[Scale, ...]] = {
    "classification": ("probability", "logit"),
    "regression": ("value",),
}


def attribute(
    model: nn.Module,
    data: Data,
    node: int | str,
    *,
    output: int | None = None,
    of: Scale | None = None,
    links: Reading = "bernoulli",
    task: Task = "classification",
    forward: Forward | None = None,
    top: int = 20,
) -> Attribution:
    r"""The variance of one node's answer, divided over what caused it, largest first.

    .. math::
        V[y] \approx \sum_{w,k} \sigma_{wk}^2 \left(\frac{\partial y}{\partial x_{wk}}\right)^2
            + \sum_{\{u,v\}} p (1 - p) \left(\frac{\partial y}{\partial z_{uv}}\right)^2

    with the noise variance :math:`\sigma_{wk}^2` of feature k of node w, and the coin z of the link
    {u, v}, which is real with chance p: one coin for both directions where their chances agree. It
    says what to measure again and which link to verify. Slopes are plain derivatives at the mean
    (features at ``x``, coins at p as weights of their messages), by automatic differentiation
    through the model as it is: any differentiable model will do, attention included.

    It is about the data: dropout is off and the weights count as certain. Exact for networks that
    are linear in the features, on the scale of the logits, and for the coins of one layer. Else
    it is the first order: what curvature does (that of a coin met in two layers included), and
    what noise and coins or two coins do together, is in :func:`varigraph.predict` only.

    The cost is one forward and one backward pass over the whole graph, whose degrees and
    neighbour counts a cut-out neighbourhood would get wrong.

    Args:
        model: any trained network of torch_geometric; it is as before afterwards.
        data: the graph, with ``x_var``, ``edge_prob`` or both, as for :func:`varigraph.predict`.
            Where it has ``node_names``, ``feature_names`` or ``class_names``, they are printed.
        node: whose answer to explain, by its number or by its name in ``data.node_names``.
        output: the class, the predicted one by default; in regression the column of the answer.
        of: ``"probability"`` (default) or ``"logit"`` of the class; in regression ``"value"``.
        links: ``"bernoulli"``, a coin per link, or ``"weight"``, a certain factor: no cause.
        task: ``"classification"`` or ``"regression"``.
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
    scale = _scale(task, of)
    top = whole("top", top, remedy="top=20")
    question = ask(model, data, links=links, task=task, forward=forward, samples=0)
    place = _place(node, data)
    with guarded(model, question.run, data.x), differentiable(question) as network:
        leaves = leaves_of(question)
        rows = outputs(network, leaves)
        # In float64, or the probabilities of sure answers lose their slopes.
        row = rows[place].cpu().double()
        column = _column(output, row, scale)
        number = (row.softmax(-1) if scale == "probability" else row)[column]
        slope = slopes(number, {name: leaf.value for name, leaf in leaves.items()})
    coins = None if question.links is None else question.links.coins
    return _attribution(
        feature_causes(slope.get(FEATURES), question.x.var),
        link_causes(slope.get(LINKS), coins),
        {name: total_of(slope[name], leaf.variance) for name, leaf in leaves.items()},
        coins,
        top,
        node=place,
        output=column,
        of=scale,
        value=float(number.detach()),
        names=_names(data, len(row) if task == "classification" else None),
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


def _place(node: int | str, data: Data) -> int:
    if isinstance(node, str):
        return called([node], data)[0]
    last = len(data.x) - 1
    return whole("node", node, most=last, remedy=f"count from 0 to {last}")


def _column(output: int | None, row: Tensor, scale: Scale) -> int:  # [outputs]
    if output is not None:
        last = len(row) - 1
        return whole("output", output, most=last, remedy=f"count from 0 to {last}")
    if scale == "value" and len(row) > 1:
        raise OptionError(f"the model has {len(row)} outputs per node", "say which: output=0")
    return int(row.argmax())


def _scale(task: Task, of: Scale | None) -> Scale:
    """The scale asked for."""
    known = SCALES[one_of("task", task, list(SCALES))]
    return known[0] if of is None else one_of("of", of, known)


def _names(data: Data, classes: int | None) -> Names:
    """Names that the data carries, one for each thing that they name."""
    nodes, features = data.x.shape
    return Names(
        nodes=_checked(data, "node_names", nodes),
        features=_checked(data, "feature_names", features),
        classes=None if classes is None else _checked(data, "class_names", classes),
    )


def _checked(data: Data, field: str, count: int) -> Sequence[Any] | None:
    names: Sequence[Any] | None = data.get(field)
    if names is not None and not isinstance(names, Sized):
        raise GraphError(f"{field} is a {type(names).__name__}", f"give a list of {count} names")
    if names is not None and len(names) != count:
        raise GraphError(
            f"{field} has {len(names)} entries for {count}", f"give {count}, or del data.{field}"
        )
    return names
