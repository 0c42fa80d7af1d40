"""What an attribution is: the variance of one answer, divided over what caused it."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Literal, NamedTuple, TypeAlias

from varigraph.prediction.sources.features import FEATURES
from varigraph.prediction.sources.links import LINKS

Scale = Literal["probability", "logit", "value"]
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
        output: which of its outputs: the class, or the column in regression.
        of: the scale: ``"probability"``, ``"logit"`` or, in regression, ``"value"``.
        value: the answer itself, all features and coins at their means.
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
