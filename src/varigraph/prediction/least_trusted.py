"""The answers to be careful with: what they are, what is to blame, what would help."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING, overload

import torch

from varigraph.options import whole
from varigraph.prediction.sources.source import INTERACTIONS, SOURCES
from varigraph.trust.confidence import doubt

if TYPE_CHECKING:
    from varigraph.prediction.prediction import Prediction

#: Causes that are no sources, and what would help against them.
OWN_DOUBT, RESIDUAL = "the network itself", "residual"
REMEDIES = {
    OWN_DOUBT: "train on more nodes like it",
    RESIDUAL: "train a better network",
    INTERACTIONS: "reduce any of its causes",
}
HEAD = ("", "answer", "", "by itself", "main cause", "share", "what would help")


@dataclass(frozen=True)
class Doubtful:
    """An answer to be careful with.

    Args:
        node: number of the node.
        name: what it is called.
        answer: the class, label or output that is told about.
        value: its probability, or the expected value.
        std: the error bar of that.
        trust: see :attr:`~varigraph.Prediction.trust`.
        plain: what the network by itself gives that answer; None where that is not known.
        cause: what most of the doubt is due to: a source, or the network itself.
        share: how much of the doubt, 0 to 1.
        remedy: what would help.
    """

    node: int
    name: str
    answer: str
    value: float
    std: float
    trust: float
    plain: float | None
    cause: str
    share: float
    remedy: str

    @property
    def cells(self) -> tuple[str, ...]:
        """As a row of a table."""
        plain = "" if self.plain is None else f"{self.plain:.3g}"
        bar = f"{self.value:.3g} ± {self.std:.2g}"
        share = f"{self.share:.0%}"
        return (self.name, self.answer, bar, plain, self.cause, share, self.remedy)


class LeastTrusted(Sequence[Doubtful]):
    """Answers to be careful with, the least trusted first; printed, they are a table."""

    def __init__(self, found: Sequence[Doubtful], asked: int) -> None:
        self._found, self._of = tuple(found), asked

    @overload
    def __getitem__(self, place: int) -> Doubtful: ...
    @overload
    def __getitem__(self, place: slice) -> Sequence[Doubtful]: ...
    def __getitem__(self, place: int | slice) -> Doubtful | Sequence[Doubtful]:
        return self._found[place]

    def __len__(self) -> int:
        return len(self._found)

    def __iter__(self) -> Iterator[Doubtful]:
        return iter(self._found)

    def __repr__(self) -> str:
        table = [HEAD, *(each.cells for each in self._found)]
        widths = [max(map(len, column)) for column in zip(*table, strict=True)]
        lines = ("  ".join(map(str.ljust, row, widths)).rstrip() for row in table)
        return "\n".join((f"least trusted of {self._of:,}", *lines))

    def _repr_html_(self) -> str:
        head = "".join(f"<th>{escape(text)}</th>" for text in HEAD)
        rows = "".join(
            f"<tr>{''.join(f'<td>{escape(text)}</td>' for text in each.cells)}</tr>"
            for each in self._found
        )
        return f"<table><tr>{head}</tr>{rows}</table>"


def least_trusted(prediction: Prediction, count: int) -> LeastTrusted:
    """The answers that can be trusted least, the worst first.

    Args:
        prediction: whose answers.
        count: how many of them.
    """
    count = whole("count", count, least=1, remedy="least_trusted(10)")
    trust = prediction.trust
    worst = torch.argsort(trust, stable=True)[:count]
    mean, total, task = prediction.mean[worst], prediction.total[worst], prediction.task
    found = doubt(mean, total, task)
    parts = {part: var[worst] for part, var in prediction.by_source.items()}
    rows = []
    for place, (row, output) in enumerate(zip(worst.tolist(), found.output.tolist(), strict=True)):
        doubted = float(found.whole[place])
        shares = {part: float(var[place, output]) / (doubted or 1) for part, var in parts.items()}
        shares[OWN_DOUBT] = float(found.whole[place] - found.uncertain[place]) / (doubted or 1)
        cause = max(shares, key=lambda part: shares[part])
        plain = prediction.plain
        rows.append(
            Doubtful(
                node=prediction.rows.node(row),
                name=prediction.rows.name(row),
                answer=prediction.rows.output(output, task),
                value=float(mean[place, output]),
                std=float(total[place, output].clamp_min(0).sqrt()),
                trust=float(trust[row]),
                plain=None if plain is None else float(plain[row, output]),
                cause=cause,
                share=shares[cause],
                remedy=SOURCES[cause].remedy if cause in SOURCES else REMEDIES[cause],
            )
        )
    return LeastTrusted(rows, len(trust))
