"""What an audit is: a method's variances next to those of brute force, and how to read them."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import Any

from varigraph.prediction.prediction import Task
from varigraph.quantify.fidelity import Ratio

#: Relative standard error of a variance to aim for where there were too few draws.
AIM = 0.05
LEGEND = (
    "ratio: variance by the method / by brute force, median over nodes and classes; 5-95 %: range\n"
    "of the ratios, sampling error of brute force taken out; rank: correlation of the variances;\n"
    "inside: share of the draws within the method's 90 % intervals"
)


@dataclass(frozen=True)
class Fidelity:
    """How close a method comes, with one source or all of them switched on.

    Args:
        source: ``"total"``, or the only source that was on.
        logits: ratio of the variances of the logits (of the answers, in regression).
        answer: ratio of the variances of the class probabilities.
        coverage: share of the drawn logits within the method's 90 % intervals.
    """

    source: str
    logits: Ratio
    answer: Ratio
    coverage: float


@dataclass(frozen=True)
class Audit:
    """What brute force says about a method; ``print`` shows it as a table.

    Args:
        method: what was audited.
        samples: draws of brute force, for each line.
        task: ``"classification"`` or ``"regression"``.
        rows: all sources together, then each alone where there are several.
    """

    method: str
    samples: int
    task: Task
    rows: tuple[Fidelity, ...]

    @property
    def too_small(self) -> bool:
        """Whether there were too few draws to tell, in any line."""
        return any(row.logits.too_coarse for row in self.rows)

    def to_dict(self) -> dict[str, Any]:
        """The same as names, numbers and lists; None where there is no number."""
        plain: dict[str, Any] = _without_nan(asdict(self))
        return {**plain, "too_small": self.too_small}

    def __str__(self) -> str:
        lines = [_title(self), *_table(self), *(_verdict(row, self.samples) for row in self.rows)]
        return "\n".join([*lines, LEGEND])


def _title(found: Audit) -> str:
    first = found.rows[0].logits
    left_out = f", {first.left_out} left out: nothing moves them" if first.left_out else ""
    return (
        f"{found.method} against brute force, {found.samples} draws, "
        f"{first.compared} variances{left_out}"
    )


def _table(found: Audit) -> list[str]:
    classification = found.task == "classification"
    of = "of the logits" if classification else "of the answer"
    rows = [["variance", of, "5-95 %", "rank", "inside", "of the probabilities", "5-95 %"]]
    rows += [_cells(row) for row in found.rows]
    columns = list(zip(*rows, strict=True))[: None if classification else 5]
    widths = [max(map(len, column)) for column in columns]
    return [
        "  ".join(
            cell.rjust(width) if place else cell.ljust(width)
            for place, (cell, width) in enumerate(zip(row, widths, strict=False))
        )
        for row in rows
    ]


def _cells(row: Fidelity) -> list[str]:
    logits, answer = row.logits, row.answer
    return [
        row.source,
        f"{_short(logits.median)} ± {_short(logits.median * logits.error, 1)}",
        f"{_short(logits.low)} - {_short(logits.high)}",
        f"{logits.rank_correlation:.2f}",
        f"{100 * row.coverage:.1f} %",
        _short(answer.median),
        f"{_short(answer.low)} - {_short(answer.high)}",
    ]


def _short(value: float, digits: int = 3) -> str:
    return f"{value:.3f}" if 0.1 <= value < 10 and digits > 1 else f"{value:.{digits}g}"


def _verdict(row: Fidelity, samples: int) -> str:
    ratio = row.logits
    if ratio.compared == 0:
        return f"{row.source}: nothing to compare: no answer moves"
    if math.isnan(ratio.resolution):
        return f"{row.source}: too few draws to tell; take samples=400"
    if ratio.too_coarse:
        enough = max(400, math.ceil(samples * (ratio.resolution / AIM) ** 2))
        return (
            f"{row.source}: too few draws to tell: a variance is known to "
            f"± {ratio.resolution:.0%} only; take samples={enough}"
        )
    if ratio.agrees:
        return f"{row.source}: agrees; the median may be off by {2 * ratio.error:.1%} unseen"
    return f"{row.source}: the method gives {_short(ratio.median)} of the true variance"


def _without_nan(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_nan(part) for key, part in value.items()}
    if isinstance(value, (list, tuple)):
        return [_without_nan(part) for part in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
