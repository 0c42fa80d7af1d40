"""The causes of one answer's variance, in numbers, in words and with advice."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from torch_geometric.data import Data
from torch_geometric.explain import Explanation

from varigraph.prediction.sources.features import FEATURES
from varigraph.prediction.sources.links import LINKS
from varigraph.prediction.sources.source import INTERACTIONS
from varigraph.quantify.explanation import explanation, feature_mask, link_mask
from varigraph.quantify.shares import (
    ADVICE,
    Cause,
    FeatureShare,
    LinkShare,
    Names,
    NodeShare,
    Scale,
    SourceShare,
    percent,
    source_table,
    sources_of,
    table,
)

#: A feature is named in the advice if it has this part of its node's variance; else the node is.
OUTSTANDING = 0.25


@dataclass(frozen=True)
class Attribution:
    r"""The variance of one answer and its causes, largest first.

    .. math::
        \text{variance} = \sum_{w,k} \text{features}_{wk} + \sum_{l} \text{links}_l
            + \text{weights} + \text{interactions}

    Value, variance and ``by_source`` are those of :func:`varigraph.predict`. What features and
    links cause is divided further, over single ones; ``nodes`` divides the features in another way:
    all features of a node together. The lists hold the largest causes that there are; what is not
    listed is in ``rest``, so that each list and its rest add up to its source. All shares are of
    ``variance``, 0 to 1.

    Args:
        node: whose answer it is.
        output: which of its outputs: the class, the label, or the column in regression.
        of: the scale: ``"probability"``, ``"logit"`` or, in regression, ``"value"``.
        value: the answer itself, its mean.
        variance: its variance, from all sources.
        by_source: the variance due to each source and to interactions, as ``predict`` has it. What
            draws find to be negative is 0 here, within its ``std_error``.
        features: single features of single nodes.
        nodes: nodes, all of their features together.
        links: links.
        rest: variance that is not listed, of ``features``, ``nodes`` and ``links``.
        method: how value and variance were computed.
        std_error: standard errors of ``by_source``, where draws had a part in it.
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
    method: str = "first-order"
    std_error: Mapping[str, float] | None = None
    names: Names = field(default_factory=Names, repr=False, compare=False)

    @property
    def sources(self) -> tuple[SourceShare, ...]:
        """The sources that cause any of it, largest first."""
        return sources_of(self.by_source, self.variance or 1, self.std_error)

    def to_dict(self) -> dict[str, Any]:
        """Everything as plain numbers, lists and dicts, ready for JSON."""
        plain = ("node", "output", "of", "value", "variance", "method")
        lists = (FEATURES, "nodes", LINKS)
        return {
            **{name: getattr(self, name) for name in plain},
            "by_source": dict(self.by_source),
            "std_error": None if self.std_error is None else dict(self.std_error),
            **{name: [asdict(entry) for entry in getattr(self, name)] for name in lists},
            "rest": dict(self.rest),
        }

    def to_explanation(self, data: Data) -> Explanation:
        """The listed causes for the viewers of torch_geometric, shares as masks.

        ``node_mask`` has a share for each feature of each node, ``edge_mask`` one for each link,
        where links are in doubt. Ask with a large ``top=`` to have all of them.

        Args:
            data: the graph that was asked about.
        """
        masks = feature_mask(self.features, data), link_mask(self.links, data)
        return explanation(data, *masks, index=self.node, target=self.output)

    def __str__(self) -> str:
        what = f"{self.names.node(self.node)}, {self.names.answer(self.output, self.of)}"
        std, how = math.sqrt(self.variance), self.method.split(":")[0]
        head = f"{what}: {self.value:.4g} ± {std:.2g} (variance {self.variance:.3g}, {how})"
        noise, coins = (self.by_source.get(name, 0.0) for name in (FEATURES, LINKS))
        together, of = "nodes, all features together", self.variance or 1
        tables = (
            source_table(self.sources),
            table(FEATURES, self.features, self.names, noise, of),
            table(together, self.nodes, self.names, noise, of),
            table(LINKS, self.links, self.names, coins, of),
        )
        return "\n".join([head, *(line for lines in tables for line in lines), *self._advice()])

    def _advice(self) -> list[str]:
        if self.variance == 0:
            return ["nothing makes this answer uncertain, to first order"]
        worst = sorted(self._causes(), key=lambda cause: -cause.share)
        advice = [cause for cause in worst[:ADVICE] if cause is worst[0] or cause.share >= 0.01]
        lines = [f"{self.names.remedy(cause)} ({percent(cause.share)})" for cause in advice]
        return [
            "",
            *(line.removesuffix(")") + " of the variance)" for line in lines[:1]),
            *lines[1:],
        ]

    def _causes(self) -> Iterator[Cause]:
        """Links, features that stand out in their node, other nodes, and sources as a whole."""
        yield from self.links
        standing_out = {node.node: OUTSTANDING * node.share for node in self.nodes}
        single = [f for f in self.features if f.share >= standing_out.get(f.node, 0)]
        yield from single
        named = {feature.node for feature in single}
        yield from (node for node in self.nodes if node.node not in named)
        divided = {FEATURES: self.features, LINKS: self.links, INTERACTIONS: True}
        yield from (each for each in self.sources if not divided.get(each.part))
