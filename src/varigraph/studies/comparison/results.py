"""What all cells found, as one long list and by question."""

from __future__ import annotations

import math
import statistics
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

from varigraph.files import csv_text
from varigraph.studies.pieces import Record

SECONDS = ("training_seconds", "prediction_seconds")


class Row(NamedTuple):
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
        std: between seeds, with n - 1; NaN where there is one only.
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

    def rows(self) -> Iterator[Row]:
        """Every number, with what it is."""
        for cell in self.cells:
            place = (cell["protocol"], cell["dataset"], cell["method"])
            for level in cell["levels"]:
                numbers = {**level["scores"], **{name: level[name] for name in SECONDS}}
                for metric, value in numbers.items():
                    yield Row(*place, level["noise"], cell["seed"], metric, value)

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
        """The long list, one number a line."""
        return csv_text(Row._fields, self.rows())
