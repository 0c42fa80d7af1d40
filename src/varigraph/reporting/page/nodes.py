"""What a page says node by node: its answers, its neighbours and the causes of its variance."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch_geometric.data import Data

from varigraph.choices import Reading
from varigraph.data import feature_variance
from varigraph.data.graph_parts import links
from varigraph.errors import MissingRuleError, TooLargeError
from varigraph.moments.links import coins_of
from varigraph.prediction import Prediction
from varigraph.prediction.calling import Forward
from varigraph.prediction.least_trusted import RESIDUAL
from varigraph.prediction.sources.features import FEATURES
from varigraph.prediction.sources.links import LINKS
from varigraph.prediction.sources.source import INTERACTIONS
from varigraph.prediction.sources.weights import WEIGHTS
from varigraph.quantify import Attribution, GraphAttribution, attribute
from varigraph.quantify.attribute import attributions
from varigraph.quantify.shares import LinkShare, NodeShare
from varigraph.reporting.page.document import rounded
from varigraph.reporting.page.subject import GROUPS, PageSubject


def nodes(subject: PageSubject) -> dict[str, Any]:
    """Columns with a number for each node; those of answers have one for each output, in a row.

    Args:
        subject: of the page.
    """
    truth = subject.truth
    return {
        "count": len(subject.mean),
        "names": subject.node_names,
        "mean": rounded(subject.mean),
        "answer": subject.doubt.output.tolist(),
        "std": rounded(subject.total.sqrt(), digits=3),
        "variance": rounded(subject.variance),
        "trust": rounded(subject.trust),
        "rank": _ranks(subject.trust),
        "low": None if subject.low is None else rounded(subject.low),
        "high": None if subject.high is None else rounded(subject.high),
        "sources": [rounded(subject.shown(part)) for part in subject.by_source],
        "truth": _whole(truth) if subject.classification else _values(truth),
        "group": _group(subject),
    }


def _ranks(trust: Tensor) -> list[int]:  # [nodes]
    """How many nodes are trusted less than each."""
    ranks: list[int] = torch.searchsorted(trust.sort().values, trust).tolist()
    return ranks


def _whole(truth: Tensor | None) -> list[int] | None:  # [nodes]
    return None if truth is None else truth.clamp_min(-1).tolist()


def _values(truth: Tensor | None) -> list[float | None] | None:  # [nodes, outputs]
    if truth is None:
        return None
    known = truth.isfinite().flatten().tolist()
    shown = rounded(truth.nan_to_num(0, 0, 0))
    return [value if fine else None for value, fine in zip(shown, known, strict=True)]


def _group(subject: PageSubject) -> list[int] | None:
    """Place in :data:`GROUPS`, -1 for none of them; None where there are no masks."""
    if not subject.masks:
        return None
    place = torch.full((len(subject.mean),), -1)
    for number, name in enumerate(GROUPS):
        if name in subject.masks:
            place[subject.masks[name]] = number
    found: list[int] = place.tolist()
    return found


#: Links that a page can carry: about 20 bytes each.
MOST = 1_000_000


def neighbours(graph: Data) -> dict[str, Any]:
    """Each link once: its two ends, its probability and, where it has only one, its direction.

    Args:
        graph: whose links they are.

    Returns:
        ``count`` alone where there are more than :data:`MOST`.
    """
    edge_index = _edges(graph)
    prob = graph.get("edge_prob")
    chance = torch.ones(edge_index.size(1)) if prob is None else prob.detach().cpu()
    coins = coins_of(edge_index, chance, len(graph.x))
    apart = coins.source != coins.target  # a node is not drawn as its own neighbour
    if int(apart.sum()) > MOST:
        return {"count": int(apart.sum())}
    both = coins.both_ways[apart]
    return {
        "count": len(both),
        "source": coins.source[apart].tolist(),
        "target": coins.target[apart].tolist(),
        "prob": None if prob is None else rounded(coins.prob[apart], digits=3),
        "oneWay": None if bool(both.all()) else (~both).long().tolist(),
    }


def _edges(graph: Data) -> Tensor:  # -> [2, edges]
    edge_index = links(graph)
    if edge_index is not None:
        return edge_index.cpu()
    starts, source = graph.adj_t.crow_indices().cpu(), graph.adj_t.col_indices().cpu()
    target = torch.arange(len(graph.x)).repeat_interleave(starts.diff())  # rows of adj_t
    return torch.stack([source, target])


#: Causes that are listed for a node, and single features.
LISTED, LISTED_FEATURES = 8, 3
#: Share of the variance below which a cause is not worth a line.
WORTH = 0.001
#: Causes that are listed for all answers together, and the share from which they stand out.
TOGETHER, OUTSTANDING = 5, 0.05


def causes(
    subject: PageSubject,
    prediction: Prediction,
    model: nn.Module | None,
    graph: Data,
    *,
    count: int,
    links: Reading,
    forward: Forward | None,
) -> dict[str, Any]:
    """Causes by node, those of all answers together, and a sentence about what was explained.

    Args:
        subject: of the page.
        prediction: that it is about.
        model: that predicted; without it there are no causes.
        graph: as it was predicted on.
        count: how many nodes to explain.
        links: how ``edge_prob`` is read.
        forward: how the model is called.
    """
    if subject.pairs is not None:
        return _without("Single causes are computed for nodes, not for pairs.")
    if model is None or count == 0:
        return _without("Causes were not computed for this page.")
    if not _data_uncertain(graph, links):
        return _without("Nothing in the data is uncertain, so nothing in it is a cause.")

    def of_all() -> GraphAttribution:
        return attribute(
            model,
            graph,
            prediction=prediction,
            links=links,
            task=subject.task,
            forward=forward,
            top=TOGETHER,
        )

    chosen, most = explained(-subject.trust, count)
    best = subject.doubt.output
    outputs = [0] * len(chosen) if subject.task == "binary" else best[chosen].tolist()
    asked = list(zip(chosen.tolist(), outputs, strict=True))
    every = attributions(
        model,
        graph,
        asked,
        links=links,
        task=subject.task,
        forward=forward,
        prediction=prediction,
    )
    found = {each.node: each for each in every}
    note = (
        f"Causes were computed for {len(chosen):,} of {len(best):,} nodes: the {most:,} least "
        f"trusted and {len(chosen) - most:,} spread evenly over the others."
    )
    entries = {str(node): _entry(why, subject, node) for node, why in found.items()}
    return {"nodes": entries, "note": note, **_together(of_all)}


def _without(note: str) -> dict[str, Any]:
    return {"nodes": {}, "note": note, "together": [], "plan": ""}


def _together(of_all: Callable[[], GraphAttribution]) -> dict[str, Any]:
    """The nodes and links that matter most in all answers, and what they would take away.

    Nothing where the network has no closed form, or that is too large.
    """
    try:
        found = of_all()
    except (MissingRuleError, TooLargeError):
        return {"together": [], "plan": ""}
    every: list[NodeShare | LinkShare] = [*found.nodes, *found.links]
    every.sort(key=lambda cause: -cause.share)
    listed = [_line(found, cause, cause.share) for cause in every[:TOGETHER] if cause.share > 0]
    share = sum(line["share"] for line in listed)
    all_of_them = sum(found.by_source.get(part, 0.0) for part in (FEATURES, LINKS)) / (
        found.variance or 1
    )
    plan = (
        f"The {len(listed)} single causes that matter most have {_percent(share)} of the variance "
        f"of all answers; all noise and doubtful links together have {_percent(all_of_them)}. "
    )
    plan += (
        "vg.plan(model, graph, budget=20) chooses what to measure again."
        if share >= OUTSTANDING
        else "Measuring only a few things again would not help much."
    )
    return {"together": listed, "plan": plan if listed else ""}


def _percent(share: float) -> str:
    return f"{100 * share:.1f} %"


def explained(doubt: Tensor, count: int) -> tuple[Tensor, int]:  # [nodes] -> [chosen]
    """The most doubtful nodes, then some that are spread evenly over the ranks of the others.

    Args:
        doubt: about each node.
        count: how many to choose; two thirds of them are the most doubtful ones.

    Returns:
        The nodes, and how many of them are the most doubtful.

    Example:
        >>> explained(torch.tensor([0.1, 0.9, 0.3, 0.2]), 3)
        (tensor([1, 2, 0]), 2)
    """
    order = doubt.argsort(descending=True, stable=True)
    if count >= len(order):
        return order, len(order)
    most = -(-2 * count // 3)
    rest = torch.linspace(most, len(order) - 1, count - most + 1).round().long()[1:]
    return torch.cat([order[:most], order[rest]]), most


def _data_uncertain(graph: Data, links: Reading) -> bool:
    prob = graph.get("edge_prob")
    uncertain_links = prob is not None and links != "weight" and bool((prob < 1).any())
    return uncertain_links or bool(feature_variance(graph).any())


def _entry(found: Attribution, subject: PageSubject, node: int) -> dict[str, Any]:
    """Causes with their shares of the whole variance, largest first, the weights among them.

    Features and links are divided further; what is not listed is the rest, so that all add up to
    the variance that the page has for this answer.
    """
    total = float(subject.variance[node]) or 1.0
    parts = {
        part: max(0.0, float(subject.shown(var)[node])) / total
        for part, var in zip(subject.parts, subject.by_source, strict=True)
    }
    divided = [
        _line(found, cause, _scaled(cause.variance, found, kind, parts))
        for kind, single in ((FEATURES, found.nodes), (LINKS, found.links))
        for cause in single
    ]
    whole = [
        {"what": WHOLE.get(part, part), "share": share, "kind": part}
        for part, share in parts.items()
        if part not in (FEATURES, LINKS)
    ]
    lines = sorted([*divided, *whole], key=lambda line: -line["share"])
    listed = [line for line in lines[:LISTED] if line["share"] >= WORTH]
    return {
        "causes": listed,
        "rest": max(0.0, 1 - sum(line["share"] for line in listed)),
        "features": [
            {
                "what": found.names.of(feature),
                "share": _scaled(feature.variance, found, FEATURES, parts),
            }
            for feature in found.features[:LISTED_FEATURES]
        ],
    }


#: Sources that are not divided further, in words.
WHOLE = {
    WEIGHTS: "the weights of the network",
    INTERACTIONS: "several causes together",
    RESIDUAL: "the network's own error",
}


def _scaled(variance: float, found: Attribution, kind: str, parts: dict[str, float]) -> float:
    """A cause's share: its part of its source, times what the source has of the whole."""
    source = found.by_source.get(kind, 0.0)
    return parts.get(kind, 0.0) * variance / source if source > 0 else 0.0


def _line(
    found: Attribution | GraphAttribution, cause: NodeShare | LinkShare, share: float
) -> dict[str, Any]:
    if isinstance(cause, LinkShare):
        ends = [cause.source, cause.target]
        what, do = found.names.of(cause), "verify it"
        return {"what": what, "share": share, "kind": LINKS, "ends": ends, "do": do}
    what = f"features of {found.names.of(cause)}"
    line = {"what": what, "share": share, "kind": FEATURES, "ends": [cause.node]}
    return {**line, "do": "measure them again"}
