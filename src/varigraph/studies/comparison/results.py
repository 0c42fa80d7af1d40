"""What all cells found: every number, means over seeds as text, and where ours is worse."""

from __future__ import annotations

import math
import statistics
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from statistics import fmean
from typing import NamedTuple

from varigraph.files import csv_text
from varigraph.studies.config import NOISE
from varigraph.studies.folder import Record

SECONDS = ("training_seconds", "prediction_seconds")


class ResultRow(NamedTuple):
    """One number."""

    protocol: str
    dataset: str
    method: str
    noise: float
    seed: int
    metric: str
    value: float | None


@dataclass(frozen=True)
class Figure:
    """A number over seeds.

    Args:
        mean: over seeds.
        std: between seeds, with n - 1; NaN where there is only one.
        seeds: how many.
    """

    mean: float
    std: float
    seeds: int

    @classmethod
    def of(cls, values: Sequence[float]) -> Figure | None:
        """Of the values of all seeds, of which there may be none."""
        if not values:
            return None
        std = statistics.stdev(values) if len(values) > 1 else math.nan
        return cls(statistics.fmean(values), std, len(values))


@dataclass(frozen=True)
class Results:
    """The records of all cells that the tables need.

    Args:
        cells: records, as their files have them.
    """

    cells: tuple[Record, ...]

    def rows(self) -> Iterator[ResultRow]:
        """Every number, with what it is."""
        for cell in self.cells:
            place = (cell["protocol"], cell["dataset"], cell["method"])
            for level in cell["levels"]:
                numbers = {**level["scores"], **{name: level[name] for name in SECONDS}}
                for metric, value in numbers.items():
                    yield ResultRow(*place, level["noise"], cell["seed"], metric, value)

    def by_seed(
        self, protocol: str, dataset: str, method: str, noise: float, metric: str
    ) -> dict[int, float]:
        """A number for each seed that has it."""
        return self._index.get((protocol, dataset, method, noise, metric), {})

    def figure(
        self, protocol: str, dataset: str, method: str, noise: float, metric: str
    ) -> Figure | None:
        """The same over all seeds."""
        by_seed = self.by_seed(protocol, dataset, method, noise, metric)
        return Figure.of([by_seed[seed] for seed in sorted(by_seed)])

    def methods(self, protocol: str, dataset: str) -> list[str]:
        """The methods that were run there."""
        found = (
            c["method"] for c in self.cells if (c["protocol"], c["dataset"]) == (protocol, dataset)
        )
        return list(dict.fromkeys(found))

    @cached_property
    def _index(self) -> dict[tuple[str, str, str, float, str], dict[int, float]]:
        index: dict[tuple[str, str, str, float, str], dict[int, float]] = defaultdict(dict)
        for row in self.rows():
            if row.value is not None:
                place = (row.protocol, row.dataset, row.method, row.noise, row.metric)
                index[place][row.seed] = row.value
        return index

    def to_csv(self) -> str:
        """The long list, one number per line."""
        return csv_text(ResultRow._fields, self.rows())


NO_NUMBER = "–"
#: Measures that are shares and printed in per cent.
PER_CENT = "accuracy"
#: Digits after the point; where none are given, two significant ones.
DIGITS = {"accuracy": 2, "per_class_nll": 2, "training_seconds": 1, "prediction_seconds": 1}
THREE_DIGITS = ("cross_entropy", "brier", "ece", "auroc", "confidence_auroc", "risk_coverage_area")


def figure_text(figure: Figure | None, metric: str) -> str:
    """Mean ± standard deviation over seeds, a dash where there is no number.

    Args:
        figure: to print.
        metric: decides the number of digits.

    Example:
        >>> figure_text(Figure(0.8512, 0.004, 5), "accuracy")
        '85.12 ± 0.40'
    """
    if figure is None:
        return NO_NUMBER
    spread = "" if math.isnan(figure.std) else f" ± {number_text(figure.std, metric)}"
    return f"{number_text(figure.mean, metric)}{spread}"


def number_text(value: float | None, metric: str) -> str:
    """One number, with the digits of its measure.

    Args:
        value: to print; None is a dash.
        metric: what it measures.

    Example:
        >>> number_text(0.00123, "total"), number_text(1234.5, "per_class_nll")
        ('0.0012', '1e+03')
    """
    if value is None:
        return NO_NUMBER
    if metric == PER_CENT:
        value *= 100
    if abs(value) >= 1000:
        return f"{value:.0e}"
    if metric in DIGITS:
        return f"{value:.{DIGITS[metric]}f}"
    if metric in THREE_DIGITS:
        return f"{value:.3f}"
    return f"{value:.4f}" if abs(value) >= 1e-3 or value == 0 else f"{value:.0e}"


#: Ours, the first that was run; the methods it is compared with; the measures (lower is better).
OURS = ("noise-aware", "first-order")
OTHERS = ("mc-dropout", "bgcn-map", "bgcn-block")
MEASURES = {"cross_entropy": "cross entropy", "brier": "Brier score", "ece": "ECE"}


def verdicts(results: Results, dataset: str) -> tuple[str, ...]:
    """One sentence for every method and measure by which ours is worse, or one that none is.

    Means over the seeds that both have are compared, on held-out nodes.

    Args:
        results: of all cells.
        dataset: name of the data set.
    """
    methods = results.methods("held-out", dataset)
    ours = next((method for method in OURS if method in methods), None)
    others = [method for method in OTHERS if method in methods]
    if ours is None or not others:
        return ()
    worse = [
        f"{ours} is worse than {other} in {name} at {', '.join(cases)}."
        for other in others
        for metric, name in MEASURES.items()
        if (cases := [c for n in NOISE if (c := _case(results, dataset, ours, other, n, metric))])
    ]
    whole = f"at least as good as {', '.join(others)} in {', '.join(MEASURES.values())}"
    return tuple(worse) or (f"{ours} is {whole} at every level of noise.",)


def _case(
    results: Results, dataset: str, ours: str, other: str, noise: float, metric: str
) -> str | None:
    """A level of noise at which ours is worse, with both figures; None where it is not."""
    own, theirs = (
        results.by_seed("held-out", dataset, method, noise, metric) for method in (ours, other)
    )
    both = sorted(own.keys() & theirs.keys())
    if not both:
        return None
    mine, yours = fmean(own[seed] for seed in both), fmean(theirs[seed] for seed in both)
    if mine <= yours:
        return None
    return f"{noise:g} % ({number_text(mine, metric)} against {number_text(yours, metric)})"
