"""The page of a run: answers, error bars, and how far validation nodes say to trust them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from varigraph.data import add_noise
from varigraph.prediction import Prediction, calibrate
from varigraph.quantify import Audit
from varigraph.reporting.page import report
from varigraph.studies.saved_run import SavedRun

PAGE = "report.html"


def trusted(prediction: Prediction, run: SavedRun) -> Prediction:
    """The same answers and error bars, with a trust that was learned on validation nodes.

    Args:
        prediction: of the run.
        run: that made it.
    """
    learned = calibrate(prediction, run.graph.y, nodes=run.graph.val_mask).apply(prediction)
    return replace(prediction, chance=learned.chance)


def run_page(
    run: SavedRun,
    *,
    noise: float,
    path: Path | None = None,
    explain: int = 30,
    audit: Audit | None = None,
) -> Path:
    """Write the page about a run at one level of noise.

    Args:
        run: what was finished.
        noise: a level that is.
        path: the file; ``report.html`` in the folder of the run if left out.
        explain: how many nodes to explain.
        audit: of the method, if there was one.
    """
    study = run.study
    return report(
        trusted(run.prediction(noise), run),
        add_noise(run.graph, percent=noise, seed=study.seed),
        model=run.model,
        path=path or run.folder / PAGE,
        title=f"{study.dataset}, noise {noise:g} %, seed {study.seed}",
        levels=run.levels(),
        audit=audit,
        explain=explain,
        links=study.reading,
        about=run.about(noise),
        warnings=run.warnings(),
    )
