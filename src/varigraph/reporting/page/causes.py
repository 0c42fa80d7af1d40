"""What contributed most to the variance of some nodes."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch_geometric.data import Data

from varigraph.data import feature_variance
from varigraph.moments.links import Reading
from varigraph.prediction.network_call import Forward
from varigraph.quantify import Attribution, attribute
from varigraph.quantify.attribution import LinkShare, NodeShare
from varigraph.reporting.page.subject import Subject

#: Causes that are listed for a node, and single features.
LISTED, FEATURES = 8, 3
#: Share of the variance below which a cause is not worth a line.
WORTH = 0.001


def causes(
    subject: Subject,
    model: nn.Module | None,
    graph: Data,
    *,
    count: int,
    links: Reading,
    forward: Forward | None,
) -> dict[str, Any]:
    """Causes by node, and a sentence that says for which nodes there are any.

    Args:
        subject: of the page.
        model: that predicted; without it there are no causes.
        graph: as it was predicted on.
        count: how many nodes to explain.
        links: how ``edge_prob`` is read.
        forward: how the model is called.
    """
    if model is None or count == 0:
        return {"nodes": {}, "note": "Causes were not computed for this page."}
    if not _in_doubt(graph, links):
        return {
            "nodes": {},
            "note": "Nothing in the data is uncertain, so nothing in it is a cause.",
        }
    chosen, most = explained(subject.variance, count)
    best = subject.mean.argmax(1) if subject.classification else subject.total.argmax(1)
    found = {
        node: attribute(
            model,
            graph,
            node,
            output=output,
            links=links,
            task="classification" if subject.classification else "regression",
            forward=forward,
        )
        for node, output in zip(chosen.tolist(), best[chosen].tolist(), strict=True)
    }
    note = (
        f"Causes were computed for {len(chosen):,} of {len(best):,} nodes: the {most:,} most "
        f"uncertain and {len(chosen) - most:,} spread evenly over the others."
    )
    return {"nodes": {str(node): _entry(blame) for node, blame in found.items()}, "note": note}


def explained(variance: Tensor, count: int) -> tuple[Tensor, int]:  # [nodes] -> [chosen]
    """The most uncertain nodes, then some that are spread evenly over the ranks of the others.

    Args:
        variance: of each node.
        count: how many to choose; two thirds of them are the most uncertain ones.

    Returns:
        The nodes, and how many of them are the most uncertain.

    Example:
        >>> explained(torch.tensor([0.1, 0.9, 0.3, 0.2]), 3)
        (tensor([1, 2, 0]), 2)
    """
    order = variance.argsort(descending=True, stable=True)
    if count >= len(order):
        return order, len(order)
    most = -(-2 * count // 3)
    rest = torch.linspace(most, len(order) - 1, count - most + 1).round().long()[1:]
    return torch.cat([order[:most], order[rest]]), most


def _in_doubt(graph: Data, links: Reading) -> bool:
    prob = graph.get("edge_prob")
    uncertain_links = prob is not None and links == "bernoulli" and bool((prob < 1).any())
    return uncertain_links or bool(feature_variance(graph).any())


def _entry(blame: Attribution) -> dict[str, Any]:
    """Links and nodes by falling share, which divide the whole variance, and single features."""
    parts: list[NodeShare | LinkShare] = sorted(
        [*blame.nodes, *blame.links], key=lambda cause: -cause.share
    )
    listed = [cause for cause in parts[:LISTED] if cause.share >= WORTH]
    return {
        "std": blame.variance**0.5,
        "causes": [_line(blame, cause) for cause in listed],
        "rest": max(0.0, 1 - sum(cause.share for cause in listed)),
        "features": [
            {"what": blame.names.of(feature), "share": feature.share}
            for feature in blame.features[:FEATURES]
        ],
    }


def _line(blame: Attribution, cause: NodeShare | LinkShare) -> dict[str, Any]:
    if isinstance(cause, LinkShare):
        ends = [cause.source, cause.target]
        return {"what": blame.names.of(cause), "share": cause.share, "kind": "links", "ends": ends}
    what = f"features of {blame.names.of(cause)}"
    return {"what": what, "share": cause.share, "kind": "features", "ends": [cause.node]}
