"""The audit of a run: the paper's network, as it was trained there, against brute force."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch import nn
from torch_geometric.data import Data

from varigraph.data import add_noise
from varigraph.prediction.predict import Method
from varigraph.quantify import Audit, audit
from varigraph.studies.config import Study
from varigraph.studies.folder import CONFIG, read_config, unreadable
from varigraph.studies.progress import Progress
from varigraph.studies.run import run


@dataclass(frozen=True)
class AuditedRun:
    """What was found about the network of a run, and where the run is."""

    title: str
    found: Audit
    folder: Path


def audit_run(
    dataset: str = "cora",
    *,
    out: str | Path | None = None,
    seed: int = 0,
    noise: float = 12.0,
    method: Method = "diagonal",
    samples: int = 2000,
    root: str | Path | None = None,
    progress: Progress | None = None,
) -> AuditedRun:
    """Audit a method on the test nodes of a run; what the run lacks is made up for first.

    Args:
        dataset: name of a data set; of no account where ``out`` holds a run.
        out: folder of the run; ``runs/<dataset>-seed<seed>`` if left out.
        seed: of the run, where it is not there yet.
        noise: level of noise, in per cent of the mean feature.
        method: what to audit.
        samples: draws of brute force.
        root: folder that holds the data sets.
        progress: called with a stage, the steps done and the number of steps.
    """
    folder = Path(out) if out is not None else Path("runs") / f"{dataset.lower()}-seed{seed}"
    study = _study(folder) or Study(dataset.lower(), seed)
    options: dict[str, Any] = {name: getattr(study, name) for name in OPTIONS}
    made = run(study.dataset, out=folder, root=root, progress=progress, **options)
    noisy = add_noise(made.graph, percent=noise, seed=study.seed)
    found = audit_study(made.model, noisy, study, method=method, samples=samples)
    return AuditedRun(f"{study.dataset}, noise {noise:g} %, test nodes", found, folder)


def audit_study(
    model: nn.Module, noisy: Data, study: Study, *, method: Method, samples: int
) -> Audit:
    """Audit a method on the test nodes of a study's graph, with the study's links and seed.

    Args:
        model: the network of the study.
        noisy: its graph, with noise.
        study: its options.
        method: what to audit.
        samples: draws of brute force.
    """
    return audit(
        model,
        noisy,
        method=method,
        samples=samples,
        links=study.reading,
        seed=study.seed,
        nodes=noisy.test_mask,
    )


OPTIONS = ("seed", "samples", "noise", "epochs", "links", "reading")


def _study(folder: Path) -> Study | None:
    """The options of the run in a folder, if there is one."""
    held = read_config(folder)
    try:
        return None if held is None else Study.of(held)
    except (ValueError, KeyError, TypeError) as error:
        raise unreadable(folder / CONFIG) from error
