"""Where our prediction is not as good as others: sentences that the numbers write."""

from __future__ import annotations

from statistics import fmean

from varigraph.studies.comparison.cell_text import number_text
from varigraph.studies.comparison.results import Results
from varigraph.studies.config import NOISE

#: Ours, the first that was run; whom it has to stand up to; and in what (lower is better).
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
