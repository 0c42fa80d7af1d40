"""What a benchmark found, as a table and as plain numbers, and the machine that it ran on."""

from __future__ import annotations

import os
import platform
from dataclasses import asdict, dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch

from varigraph.reporting.text_table import TextTable
from varigraph.studies.speed.contenders import CSR, PLAIN

HEADER = ("what", "about", "seconds", "× plain", "× CSR", "memory", "fidelity")
LEGEND = (
    "vg: by vg.predict. about: what the variance is due to, features, weights (dropout) or both.",
    "seconds: median, after a first call. × plain, × CSR: times over that of the plain forward, "
    "and over that of the same forward with the links in compressed rows, both timed in turn with "
    "what is in the row.",
    "memory: largest size of a fresh process during the first call, above that before it.",
    "fidelity: variance of the logits over that by brute force, with the same sources, median over "
    "test nodes; 1 is right.",
)
_NONE = "–"
_CPU = Path("/proc/cpuinfo")


@dataclass(frozen=True)
class ContenderRow:
    """One contender.

    Args:
        name: of the contender.
        sources: what its variances are due to.
        seconds: it takes.
        memory: bytes that it takes in addition.
        fidelity: of its variances, 1 if they are right.
        masks: as many as were timed.
        problem: why there are no figures.
        beside: seconds of others that were timed in turn with it, by name.
    """

    name: str
    sources: tuple[str, ...]
    seconds: float | None
    memory: int | None
    fidelity: float | None
    masks: int
    problem: str | None = None
    beside: dict[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Speed:
    """All contenders on one graph.

    Args:
        dataset: name of the data set.
        nodes: of the graph.
        links: of the graph, both directions counted.
        features: of a node.
        masks: T.
        repeats: calls that were timed.
        threads: of torch.
        memory: bound of :func:`varigraph.predict`.
        epochs: that the network was trained for.
        machine: that was measured.
        rows: by contender.
        absent: packages that were not installed.
    """

    dataset: str
    nodes: int
    links: int
    features: int
    masks: int
    repeats: int
    threads: int
    memory: str
    epochs: int
    machine: Machine
    rows: tuple[ContenderRow, ...]
    absent: tuple[str, ...] = ()

    def row(self, name: str) -> ContenderRow:
        """The figures of a contender.

        Args:
            name: of the contender.
        """
        return next(row for row in self.rows if row.name == name)

    def ratio(self, row: ContenderRow, to: str) -> float | None:
        """How many times longer it takes than another, timed in turn with it where that was done.

        Args:
            row: of the one.
            to: name of the other.
        """
        alone = self.row(to).seconds
        other = alone if row.name == to else row.beside.get(to, alone)
        return None if row.seconds is None or not other else row.seconds / other

    def to_dict(self) -> dict[str, Any]:
        """The same as names, numbers and lists, with the ratios in each row."""
        rows = [
            {
                **asdict(row),
                "times_plain": self.ratio(row, PLAIN),
                "times_csr": self.ratio(row, CSR),
            }
            for row in self.rows
        ]
        return {**asdict(self), "rows": rows}

    @classmethod
    def of(cls, record: dict[str, Any]) -> Speed:
        """Read back what :meth:`to_dict` gave, JSON or not.

        Args:
            record: names, numbers and lists.
        """
        rows = tuple(
            ContenderRow(
                **{name: row[name] for name in ContenderRow.__dataclass_fields__ if name in row}
                | _sources(row)
            )
            for row in record["rows"]
        )
        machine = Machine(**record["machine"])
        absent = tuple(record["absent"])
        return cls(**{**record, "rows": rows, "machine": machine, "absent": absent})

    def table(self) -> TextTable:
        """For a terminal or a document."""
        return TextTable(
            title=self.title,
            header=HEADER,
            rows=tuple(self._cells(row) for row in self.rows),
            words=2,
            notes=self.notes,
        )

    @property
    def title(self) -> str:
        """What was measured, in a line."""
        return (
            f"{self.dataset}: {self.nodes:,} nodes, {self.links:,} links, {self.features} "
            f"features; T = {self.masks}, threads: {self.threads}"
        )

    @property
    def notes(self) -> tuple[str, ...]:
        """What a reader must know."""
        cut = [f"{row.name} {row.masks}" for row in self.rows if _cut(row, self.masks)]
        short = f"Masks that were timed, where not all: {', '.join(cut)}." if cut else ""
        wrong = [f"{row.name}: {row.problem}." for row in self.rows if row.problem]
        absent = [f"Not installed here: {', '.join(self.absent)}."] if self.absent else []
        return (*LEGEND, *([short] if short else []), *wrong, *absent, f"{self.machine}.")

    def _cells(self, row: ContenderRow) -> tuple[str, ...]:
        return (
            row.name,
            about(row.sources),
            digits(row.seconds),
            digits(self.ratio(row, PLAIN)),
            digits(self.ratio(row, CSR)),
            size(row.memory),
            digits(row.fidelity),
        )


def about(sources: tuple[str, ...]) -> str:
    """What a variance is due to, in a word.

    Args:
        sources: all of it.
    """
    return "both" if len(sources) > 1 else "".join(sources) or _NONE


def digits(value: float | None) -> str:
    """A number with about three digits.

    Args:
        value: to show; None for none.

    Example:
        >>> digits(1234.5), digits(12.345), digits(0.00123), digits(None)
        ('1,234', '12.3', '0.0012', '–')
    """
    if value is None:
        return _NONE
    if value >= 100:
        return f"{value:,.0f}"
    return f"{value:.3g}" if value >= 0.1 else f"{value:.2g}"


def size(count: int | None) -> str:
    """An amount of memory.

    Args:
        count: of bytes; None for none.

    Example:
        >>> size(3 * 2**20), size(5 * 2**29)
        ('3 MiB', '2.5 GiB')
    """
    if count is None:
        return _NONE
    return f"{count / 2**30:.1f} GiB" if count >= 2**30 else f"{count / 2**20:.0f} MiB"


def _cut(row: ContenderRow, masks: int) -> bool:
    return row.problem is None and row.masks < masks


def _sources(row: dict[str, Any]) -> dict[str, Any]:
    return {"sources": tuple(row["sources"])}


@dataclass(frozen=True)
class Machine:
    """What figures of speed depend on.

    Args:
        processor: its name; that of the GPU where one was used.
        cores: of the processor.
        python: version.
        torch: version.
        torch_geometric: version.
    """

    processor: str
    cores: int
    python: str
    torch: str
    torch_geometric: str

    @classmethod
    def here(cls, device: str = "cpu") -> Machine:
        """The machine that this runs on.

        Args:
            device: that was measured.
        """
        cuda = torch.device(device).type == "cuda"
        return cls(
            processor=torch.cuda.get_device_name(device) if cuda else _processor(),
            cores=os.cpu_count() or 1,
            python=platform.python_version(),
            torch=str(torch.__version__),
            torch_geometric=version("torch_geometric"),
        )

    def __str__(self) -> str:
        return (
            f"{self.processor}, {self.cores} cores; Python {self.python}, torch {self.torch}, "
            f"torch_geometric {self.torch_geometric}"
        )


def _processor() -> str:
    lines = _CPU.read_text().splitlines() if _CPU.exists() else []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or platform.machine()
