"""The tables as a document, with how they came about."""

from __future__ import annotations

import os
import platform
from collections.abc import Iterable, Sequence
from typing import get_args

from varigraph.reporting.text_table import TextTable, markdown
from varigraph.studies.comparison.chosen import CHOSEN
from varigraph.studies.comparison.methods import Method
from varigraph.studies.comparison.options import Options
from varigraph.studies.comparison.plan import TABLES
from varigraph.studies.comparison.protocols import Protocol
from varigraph.studies.comparison.recipes import recipe
from varigraph.studies.config import versions

_PROTOCOLS = (
    "**held-out**: 70 % of the nodes for training, 10 % for validation, 20 % for testing; the same "
    "split and the same draw of noise for every method; all variances are of class probabilities. "
    "Claims rest on this one.",
    "**paper**: as its authors ran it, read in their public code. 300, 30 and 100 nodes of each "
    "class; on Cora the class label is appended to the features, which is a leak; the output "
    "variance adds a variance of logits (aleatoric) to one of class probabilities (epistemic). "
    "Rows called *printed* are the paper's own.",
)
_KNOWN = (
    "The paper says 70/10/20 nodes and layers of 64 and 32, then 12 and 8; its code has "
    "300/30/100 per class, layers of 48 and 48 and one dense layer. The network here is the one in "
    "the paper.",
    "The paper's link probabilities come from a model that was trained on the links it judges, "
    "without calibration. Ours are judged by models that have not seen them.",
    "The paper's BGCN was run with dropout off and a graph learned from all true labels.",
    "How the label was put among Cora's features is not known in every detail. Three readings were "
    "tried: as one more word of a row that sums to 1 (taken here), as a 1 beside such a row, and "
    "among words that are 0 or 1. None falls as steeply under noise as the paper's table 2.",
)


def document(
    parts: Iterable[TextTable],
    options: Options,
    methods: Sequence[Method],
    *,
    datasets: Sequence[str],
    seeds: int,
    seconds: float,
) -> str:
    """All tables in Markdown, after what a reader must know about them.

    Args:
        parts: the tables.
        options: of the comparison.
        methods: that were compared.
        datasets: that they were compared on.
        seeds: how many were asked for.
        seconds: of processor time, all processes together.
    """
    parts = list(parts)
    return "\n".join(
        [
            "# The paper's tables\n",
            f"Written by `varigraph study paper`.{_left_out(parts)}\n",
            *_points(_PROTOCOLS),
            *_points(_KNOWN),
            "Methods:\n",
            *_points(f"`{m.name}`: {m.about}" for m in methods if m.protocol == "held-out"),
            "Settings:\n",
            *_points(_settings(options, datasets, seeds, seconds)),
            *map(markdown, parts),
        ]
    )


def _left_out(parts: Sequence[TextTable]) -> str:
    """A sentence about the tables that were not asked for."""
    without = [str(n) for n in TABLES if not any(p.title.startswith(f"Table {n}.") for p in parts)]
    return f" Not in this run: table {', '.join(without)}." if without else ""


def _settings(
    options: Options, datasets: Sequence[str], seeds: int, seconds: float
) -> Iterable[str]:
    yield f"Seeds: {seeds}; slow methods have fewer on large graphs, the tables say how many."
    yield f"{options.samples} draws where a method draws."
    links = f"probabilities by {options.links}, five folds" if options.links else "all are certain"
    yield f"Links: {links}."
    for protocol in get_args(Protocol):
        for dataset in datasets:
            how = recipe(protocol, dataset, quick=options.quick)
            yield f"The network is trained on {dataset}, {protocol}, for {how}."
    for dataset in datasets:
        yield (
            f"The network of noise-aware and noise-blind on {dataset}: {CHOSEN[dataset]}, "
            "all links certain. It was chosen on validation nodes "
            "(docs/training.md), and noise-aware trains it for each level of noise anew, on clean "
            "features, knowing the variance of the noise to come."
        )
    if options.quick:
        yield "A quick look: the networks are hardly trained, so the figures mean nothing."
    made = ", ".join(f"{name} {version}" for name, version in versions().items())
    yield f"{platform.machine()}, {os.cpu_count()} cores, one thread for each process; {made}."
    yield (
        f"{seconds:,.0f} seconds of processor time, all processes together: "
        f"{seconds / 120:.0f} minutes on two cores."
    )


def _points(sentences: Iterable[str]) -> list[str]:
    return [*(f"- {sentence}" for sentence in sentences), ""]
