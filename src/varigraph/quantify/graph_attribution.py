"""The causes of the variance of all answers together."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from torch import Tensor
from torch_geometric.data import Data
from torch_geometric.explain import Explanation

from varigraph.prediction.sources.features import FEATURES
from varigraph.prediction.sources.links import LINKS
from varigraph.prediction.sources.source import INTERACTIONS
from varigraph.quantify.explanation import explanation
from varigraph.quantify.shares import (
    ColumnShare,
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


@dataclass(frozen=True)
class GraphAttribution:
    r"""What each node's features, each feature and each link cause in all answers together.

    .. math::
        \text{variance} = \sum_u V_u \qquad \text{by\_node}_w = \sum_u \text{features}_{u,w}

    the sums of what :class:`Attribution` has for single answers u. ``by_node`` and ``by_feature``
    divide the same part, that of the features, in two ways. Print it for tables with advice;
    :func:`varigraph.plan` chooses what to measure with it.

    Args:
        answers: how many nodes were asked about.
        output: the class, label or column that was asked about; None for all of them.
        of: the scale: ``"probability"``, ``"logit"`` or, in regression, ``"value"``.
        variance: of all these answers, added up.
        by_source: the same, due to each source and to interactions; the sums of what
            :func:`varigraph.predict` says.
        by_node: variance that the features of each node cause, ``[nodes]``.
        by_feature: variance that each feature causes, ``[features]``.
        by_link: variance that each link causes, ``[edges]`` in the order of ``edge_index``; of a
            link that stands there in both directions, each has half. None where no link is in
            doubt.
        nodes: the nodes that cause most.
        features: the features that cause most.
        links: the links that cause most.
        method: how the variance was computed.
        std_error: standard errors of ``by_source``, where draws had a part in it.
        names: what to call them in print.
    """

    answers: int
    output: int | None
    of: Scale
    variance: float
    by_source: Mapping[str, float]
    by_node: Tensor = field(repr=False, compare=False)
    by_feature: Tensor = field(repr=False, compare=False)
    by_link: Tensor | None = field(repr=False, compare=False)
    nodes: tuple[NodeShare, ...]
    features: tuple[ColumnShare, ...]
    links: tuple[LinkShare, ...]
    method: str = "first-order"
    std_error: Mapping[str, float] | None = None
    names: Names = field(default_factory=Names, repr=False, compare=False)

    @property
    def sources(self) -> tuple[SourceShare, ...]:
        """The sources that cause any of it, largest first."""
        return sources_of(self.by_source, self.variance or 1, self.std_error)

    def to_dict(self) -> dict[str, Any]:
        """Everything but the tensors as plain numbers, lists and dicts, ready for JSON."""
        plain = ("answers", "output", "of", "variance", "method")
        lists = ("nodes", FEATURES, LINKS)
        return {
            **{name: getattr(self, name) for name in plain},
            "by_source": dict(self.by_source),
            "std_error": None if self.std_error is None else dict(self.std_error),
            **{name: [asdict(entry) for entry in getattr(self, name)] for name in lists},
        }

    def to_explanation(self, data: Data) -> Explanation:
        """Shares of all nodes and links for the viewers of torch_geometric.

        Args:
            data: the graph that was asked about.
        """
        of = self.variance or 1
        links = None if self.by_link is None else self.by_link / of
        return explanation(data, self.by_node[:, None] / of, links)

    def __str__(self) -> str:
        how, each = self.method.split(":")[0], self.variance / self.answers
        head = (
            f"{self.answers:,} answers, {self._what}: variance {self.variance:.4g}, "
            f"{each:.3g} each ({how})"
        )
        noise, coins = (self.by_source.get(name, 0.0) for name in (FEATURES, LINKS))
        of = self.variance or 1
        tables = (
            source_table(self.sources),
            table("nodes, all features together", self.nodes, self.names, noise, of),
            table("features, at all nodes", self.features, self.names, noise, of),
            table(LINKS, self.links, self.names, coins, of),
        )
        return "\n".join([head, *(line for lines in tables for line in lines), *self._advice()])

    @property
    def _what(self) -> str:
        if self.output is not None:
            return self.names.answer(self.output, self.of)
        return {"probability": "all probabilities", "logit": "all logits"}.get(
            self.of, "all values"
        )

    def _advice(self) -> list[str]:
        """What repeating all that is listed would take away, and what no measurement would."""
        if self.variance == 0:
            return ["nothing makes these answers uncertain, to first order"]
        lines = []
        if self.nodes:
            share = sum(node.share for node in self.nodes)
            lines.append(
                f"the first {len(self.nodes)} nodes, measured again, would take {percent(share)} "
                "of all variance away; vg.plan finds better ones"
            )
        if self.links:
            share = sum(link.share for link in self.links)
            lines.append(
                f"the first {len(self.links)} links, verified, would take {percent(share)} of all "
                "variance away"
            )
        divided = (FEATURES, LINKS, INTERACTIONS)
        lines += [
            f"{each.part}: {each.remedy} ({percent(each.share)})"
            for each in self.sources
            if each.part not in divided and each.share >= 0.01
        ]
        return ["", *lines] if lines else []
