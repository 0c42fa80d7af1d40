"""Single causes of variance: what they are called, and how they are printed."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence, Sized
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, TypeAlias

from torch_geometric.data import Data

from varigraph.choices import Task
from varigraph.errors import GraphError
from varigraph.prediction.least_trusted import REMEDIES
from varigraph.prediction.sources.source import SOURCES

Scale = Literal["probability", "logit", "value"]
#: Rows of each table, and lines of advice, that are printed; the fields hold more.
ROWS, ADVICE = 5, 5


@dataclass(frozen=True)
class SourceShare:
    """Variance that a whole source causes; ``std_error`` where draws had a part in it."""

    part: str
    variance: float
    share: float
    std_error: float | None = None

    @property
    def remedy(self) -> str:
        """What would reduce it."""
        return SOURCES[self.part].remedy if self.part in SOURCES else REMEDIES[self.part]


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
class ColumnShare:
    """Variance that the noise of one feature causes, at all nodes together."""

    feature: int
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


Cause: TypeAlias = SourceShare | FeatureShare | NodeShare | ColumnShare | LinkShare


@dataclass(frozen=True)
class Names:
    """What the data calls its nodes, features and classes; their numbers where it does not say."""

    nodes: Sequence[Any] | None = None
    features: Sequence[Any] | None = None
    classes: Sequence[Any] | None = None

    @classmethod
    def from_data(cls, data: Data, outputs: int, task: Task) -> Names:
        """Those that the data has, one for each.

        Raises:
            GraphError: there are more or fewer.
        """
        (nodes, features), classes = data.x.shape, None
        if task != "regression":
            classes = ["yes"] if task == "binary" else _checked(data, "class_names", outputs)
        of_nodes = _checked(data, "node_names", nodes)
        return cls(of_nodes, _checked(data, "feature_names", features), classes)

    def of(self, cause: Cause) -> str:
        """A cause in words."""
        if isinstance(cause, SourceShare):
            return cause.part
        if isinstance(cause, ColumnShare):
            return f"feature {_name(self.features, cause.feature)}"
        if isinstance(cause, FeatureShare):
            return f"feature {_name(self.features, cause.feature)} of {self.node(cause.node)}"
        if isinstance(cause, NodeShare):
            return self.node(cause.node)
        ends = (_name(self.nodes, cause.source), _name(self.nodes, cause.target))
        return f"link {(' - ' if cause.both_ways else ' -> ').join(ends)}"

    def remedy(self, cause: Cause) -> str:
        """What would reduce what it causes."""
        if isinstance(cause, SourceShare):
            return f"{cause.part}: {cause.remedy}"
        if isinstance(cause, LinkShare):
            return f"verify: {self.of(cause)}"
        all_of_it = "all of " if isinstance(cause, NodeShare) else ""
        return f"measure again: {all_of_it}{self.of(cause)}"

    def node(self, node: int) -> str:
        """A node in words."""
        return f"node {_name(self.nodes, node)}"

    def answer(self, output: int, of: Scale) -> str:
        """The number that is asked about in words."""
        return f"output {output}" if of == "value" else f"{of} of class {self.output(output)}"

    def output(self, output: int) -> str:
        """A class in words."""
        return _name(self.classes, output)


def _checked(data: Data, field: str, count: int) -> Sequence[Any] | None:
    names: Sequence[Any] | None = data.get(field)
    if names is not None and not isinstance(names, Sized):
        raise GraphError(f"{field} is a {type(names).__name__}", f"give a list of {count} names")
    if names is not None and len(names) != count:
        raise GraphError(
            f"{field} has {len(names)} entries for {count}", f"give {count}, or del data.{field}"
        )
    return names


def _name(names: Sequence[Any] | None, place: int) -> str:
    return str(place if names is None else names[place])


def percent(share: float) -> str:
    """A share in words, with one digit where it is small.

    Example:
        >>> percent(0.314), percent(0.00123), percent(0.0)
        ('31 %', '0.1 %', '0 %')
    """
    return f"{100 * share:.0f} %" if share >= 0.01 else f"{100 * share:.1g} %"


class _Row(NamedTuple):
    share: float
    variance: float
    what: str


def table(title: str, causes: Sequence[Cause], names: Names, whole: float, of: float) -> list[str]:
    """Lines of a table: the largest causes, and all others in one row.

    Args:
        title: of the column of names.
        causes: the largest first.
        names: what to call them.
        whole: variance that these and all others cause together.
        of: variance that shares are of.
    """
    if not causes:
        return []
    rows = [_Row(cause.share, cause.variance, names.of(cause)) for cause in causes[:ROWS]]
    left = whole - math.fsum(row.variance for row in rows)
    if left > 1e-9 * whole:  # what is left of a sum of rounded numbers is not a cause
        rows.append(_Row(left / of, left, "all others"))
    lines = [f"{percent(row.share):>8}  {row.variance:>9.3g}  {row.what}" for row in rows]
    return ["", f"{'share':>8}  {'variance':>9}  {title}", *lines]


def source_table(sources: Sequence[SourceShare]) -> list[str]:
    """Lines of a table of all sources that cause anything, or might, with standard errors."""
    if len(sources) < 2:
        return []
    lines = [f"{'share':>8}  {'variance':>9}  source"]
    for each in sources:
        error = "" if each.std_error is None else f" ± {each.std_error:.2g}"
        lines.append(f"{percent(each.share):>8}  {each.variance:>9.3g}  {each.part}{error}")
    return ["", *lines]


def sources_of(
    by_source: Mapping[str, float], variance: float, errors: Mapping[str, float] | None
) -> tuple[SourceShare, ...]:
    """Parts that cause variance, and those of which draws cannot tell, the largest first."""
    found = [
        SourceShare(part, part_var, part_var / variance, None if errors is None else errors[part])
        for part, part_var in by_source.items()
        if part_var > 0 or (errors is not None and errors[part] > 0)
    ]
    return tuple(sorted(found, key=lambda each: -each.variance))
