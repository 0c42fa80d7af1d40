"""``vg.audit``: a method on the user's own model against brute force, source by source."""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, get_args

import torch
from torch import Tensor, nn
from torch_geometric.data import Data

from varigraph.choices import Method, Reading, Task
from varigraph.errors import GraphError
from varigraph.moments import Gaussian
from varigraph.options import SEEDS, one_of, seed_of, whole
from varigraph.prediction.calling import Forward, Pairs
from varigraph.prediction.network_call import guarded
from varigraph.prediction.predict import MOST_SAMPLES, ask, predict
from varigraph.prediction.question import Nodes, Question
from varigraph.prediction.sampled.method import Sample, Watch, sample
from varigraph.quantify.fidelity import NINETY, Ratio, not_zero

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
        task: what the model's output means, as in :func:`predict`.
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
    name, _, why = found.method.partition(": ")
    method = f"{name} ({why})" if why else name
    left_out = f", {first.left_out} left out: nothing moves them" if first.left_out else ""
    return (
        f"{method} against brute force, {found.samples} draws, {first.compared} variances{left_out}"
    )


def _table(found: Audit) -> list[str]:
    scales = found.task != "regression"
    of = "of the logits" if scales else "of the answer"
    rows = [["variance", of, "5-95 %", "rank", "inside", "of the probabilities", "5-95 %"]]
    rows += [_cells(row) for row in found.rows]
    columns = list(zip(*rows, strict=True))[: None if scales else 5]
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
        limit = f"{2 * ratio.error:.1%}"
        return f"{row.source}: agrees; an error of the median below {limit} would not be seen"
    return f"{row.source}: the method gives {_short(ratio.median)} of the true variance"


def _without_nan(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_nan(part) for key, part in value.items()}
    if isinstance(value, (list, tuple)):
        return [_without_nan(part) for part in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def audit(
    model: nn.Module,
    data: Data,
    *,
    method: Method = "auto",
    samples: int = 2000,
    links: Reading = "removed",
    sources: Sequence[str] | None = None,
    masks: int | None = None,
    seed: int = 0,
    task: Task | None = None,
    nodes: Nodes | None = None,
    forward: Forward | None = None,
    output: int | str | None = None,
    links_to_score: Pairs | None = None,
    dropout: float | None = None,
    memory: int | str = "half",
    **options: Any,
) -> Audit:
    r"""Compare the variances of a method with brute force, on this model and this graph.

    .. math::
        \text{ratio} = \frac{\text{variance by the method}}{\text{variance over draws}}

    for every node and class, with all sources on and with each alone. Brute force is
    ``method="sampled"``, exact for any model; its own sampling error is taken out of the range of
    the ratios (:class:`Ratio`), and the audit says so where it is too large to tell anything. The
    sampling error of the method, if it draws masks, is not taken out: it is part of its answers.

    Args:
        model: as in :func:`predict`, and so are the other options.
        data: the graph, with noise, uncertain links or both.
        method: what to audit.
        samples: draws of brute force for each line of the table.
        links: how ``edge_prob`` is read.
        sources: what to consider; by default all that the data and the model carry.
        masks: dropout masks (or draws) of the method, ``samples`` in :func:`predict`.
        seed: of the method; brute force draws with the next one, independently.
        task: what the model's output means.
        nodes: nodes to compare; all by default.
        forward: how to call the model.
        output: which of several outputs is the answer.
        links_to_score: pairs of nodes to score.
        dropout: rate of dropout to inject.
        memory: bound on the memory.
        options: further options of :func:`predict`.

    Raises:
        GraphError: nothing is uncertain, so that there is nothing to compare.
        OptionError: an option has a value that makes no sense.

    Example:
        >>> import torch, varigraph as vg
        >>> from torch_geometric.nn import SAGEConv
        >>> links = torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]])
        >>> graph = Data(x=torch.rand(3, 4), edge_index=links, x_var=0.1)
        >>> found = vg.audit(SAGEConv(4, 2), graph, method="diagonal", samples=500)
        >>> round(found.rows[0].logits.median)  # one layer: the closed form is exact
        1
    """
    method = one_of("method", method, get_args(Method))
    samples = whole("samples", samples, least=2, most=MOST_SAMPLES, remedy="samples=2000")
    seed = seed_of(seed)
    common: dict[str, Any] = {
        "links": links,
        "task": task,
        "nodes": nodes,
        "forward": forward,
        "output": output,
        "links_to_score": links_to_score,
        "dropout": dropout,
        "memory": memory,
    }
    if masks is None:
        masks = samples if method == "sampled" else 100
    masks = whole("masks", masks, most=MOST_SAMPLES, remedy="masks=100")
    active = _active(model, data, sources, {**common, "seed": seed})
    lines = (active, *((source,) for source in active)) if len(active) > 1 else (active,)
    rows = []
    for line in reversed(lines):  # all sources together come last, and name the method
        answer = predict(
            model, data, method=method, sources=line, samples=masks, seed=seed, **common, **options
        )
        inside = _Inside(answer.logits)
        question = ask(
            model, data, sources=line, samples=samples, seed=(seed + 1) % SEEDS, **common
        )
        truth = _drawn(question, inside)
        kept = not_zero(truth.logits.total.value, truth.logits.mean.value)
        of_answer = not_zero(truth.answer.total.value, truth.answer.mean.value)
        rows.append(
            Fidelity(
                source="total" if line == active else line[0],
                logits=Ratio.of(answer.logits.var, truth.logits.total, kept),
                answer=Ratio.of(answer.total, truth.answer.total, of_answer),
                coverage=inside.share(kept),
            )
        )
    return Audit(method=answer.method, samples=truth.runs, task=answer.task, rows=tuple(rows[::-1]))


def _active(
    model: nn.Module, data: Data, sources: Sequence[str] | None, options: dict[str, Any]
) -> tuple[str, ...]:
    """The sources that the data and the model carry, of those to consider."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="nothing is uncertain")
        active = _drawn(ask(model, data, sources=sources, samples=2, **options)).sources
    if not active:
        raise GraphError(
            "nothing is uncertain, so that there is nothing to compare",
            "data.x_var = 0.1, data.edge_prob = ..., or dropout=0.1",
        )
    return active


def _drawn(question: Question, watch: Watch | None = None) -> Sample:
    with guarded(question.model, question.run, question.x.mean):
        return sample(question, watch)


class _Inside:
    """Counts draws within the 90 % intervals of a method."""

    def __init__(self, logits: Gaussian) -> None:
        half = NINETY * logits.var.sqrt()
        self._low, self._high = logits.mean - half, logits.mean + half
        self._count, self._runs = torch.zeros_like(half, dtype=torch.long), 0

    def __call__(self, runs: Tensor) -> None:  # [runs, nodes, classes]
        self._count += ((runs >= self._low) & (runs <= self._high)).sum(0)
        self._runs += len(runs)

    def share(self, kept: Tensor) -> float:  # [nodes, classes]
        """Share of the draws inside, over the nodes and classes that were compared."""
        if not bool(kept.any()):
            return math.nan
        return float(self._count[kept].double().mean()) / self._runs
