"""Output variance and error against the uncertainty of the inputs, source by source."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from varigraph.data import load
from varigraph.files import write_json, write_text
from varigraph.metrics.calibration import BINS
from varigraph.moments.links import Reading
from varigraph.prediction.predict import Method
from varigraph.quantify.rungs import Rung
from varigraph.reporting.plots import write_png
from varigraph.reporting.sensitivity import sensitivity_csv, sensitivity_figure, sensitivity_table
from varigraph.reporting.text_table import TextTable, markdown
from varigraph.studies.folder import LINKS, claimed
from varigraph.studies.ladder_points import LadderPoints
from varigraph.studies.ladders import DOUBT, NOISE, Ladders
from varigraph.studies.link_source import LinkSource, link_source
from varigraph.studies.progress import Progress, in_hundredths, quiet
from varigraph.studies.trained_network import FILE, trained_network

_NOTES = (
    "one network, trained on clean features and certain links; scores of test nodes it never saw.",
    "noise: variance of the features in per cent of their mean, drawn once and scaled; accuracy "
    "in per cent; loss: cross entropy of the expected probabilities; Brier: summed over classes.",
    "variance: mean over test nodes and classes; it is the sum of its sources.",
)
_DOUBT = (
    "doubt t: a link of probability p has 1 − t (1 − p) instead, so that 0 % are certain links and "
    "100 % the probabilities found; features are clean. Links are doubted, not removed.",
    "noise: links have the probabilities found (a doubt of 100 %) at every level.",
)


@dataclass(frozen=True)
class SensitivityOutcome:
    """What a study of sensitivity found.

    Args:
        title: what was studied, in a line.
        folder: where everything was written.
        ladders: rungs of ``noise`` and, where links are uncertain, of ``doubt``.
        notes: what a reader must know.
        reused: the files of an earlier call that were taken over.
    """

    title: str
    folder: Path
    ladders: dict[str, tuple[Rung, ...]]
    notes: tuple[str, ...]
    reused: tuple[str, ...]

    @property
    def tables(self) -> tuple[TextTable, ...]:
        """A table for each ladder; the notes stand below the last."""
        last = list(self.ladders)[-1]
        return tuple(
            sensitivity_table(
                rungs,
                ladder=ladder,
                title=f"{self.title}: growing {ladder}",
                notes=self.notes if ladder == last else (),
            )
            for ladder, rungs in self.ladders.items()
        )


def sensitivity(
    dataset: str = "cora",
    *,
    out: str | Path | None = None,
    seed: int = 0,
    samples: int = 100,
    noise: Sequence[float] = NOISE,
    links: str | None = None,
    doubt: Sequence[float] = DOUBT,
    reading: Reading = "bernoulli",
    method: Method = "first-order",
    epochs: int = 50,
    root: str | Path | None = None,
    fresh: bool = False,
    progress: Progress | None = None,
) -> SensitivityOutcome:
    r"""Predict with one network while the inputs get less sure; score the test nodes.

    Noise grows on the features; then, without noise, the probability of every link falls from 1
    to the one found, :math:`p_t = 1 - t (1 - p)` for a doubt t from 0 to 1. A study that was
    broken off goes on where it stopped. Every file is whole or absent.

    Args:
        dataset: name of a data set, see :func:`varigraph.load`.
        out: folder to write; ``runs/<dataset>-sensitivity-seed<seed>`` if left out.
        seed: of everything that is drawn.
        samples: dropout masks or draws, of methods that draw.
        noise: levels of noise, in per cent of the mean feature.
        links: where the probabilities of links come from, see :func:`varigraph.studies.run.run`;
            None takes every link as certain.
        doubt: levels of t, in per cent; of no account where every link is certain.
        reading: how the probability of a link is read.
        method: how to predict, see :func:`varigraph.predict`.
        epochs: passes over the training nodes.
        root: folder that holds the data sets.
        fresh: replace an earlier study in the same folder.
        progress: called with a stage, the steps done and the number of steps.
    """
    study = Ladders(
        dataset.lower(),
        seed,
        samples,
        tuple(sorted(map(float, noise))),
        epochs,
        link_source(links),
        reading,
        method,
        tuple(sorted(map(float, doubt))) if links is not None else (),
    )
    tell = progress or quiet
    graph = load(study.dataset, root=root, seed=seed)
    name = f"{study.dataset}-sensitivity-seed{seed}"
    folder = Path(out) if out is not None else Path("runs") / name
    source = LinkSource.of(study.links, graph)
    with claimed(folder, {**study.record(), "edge_prob": source.fingerprint}, fresh=fresh) as kept:
        prob = source.applied(
            graph,
            study.dataset,
            seed=seed,
            folder=folder / LINKS,
            root=root,
            progress=in_hundredths(tell, "links"),
        ).get("edge_prob")
        model, again = trained_network(graph, kept, epochs=epochs, seed=seed, progress=tell)
        ladders, reused = LadderPoints(study, graph, prob, kept, tell).ladders(model)
        outcome = SensitivityOutcome(
            f"{study.dataset}, {method}, seed {seed}{study.about_links}",
            folder,
            ladders,
            (*_notes(study, int(graph.test_mask.sum())), *([source.note] if source.note else [])),
            (*([FILE] if again else []), *reused),
        )
        _report(outcome)
    return outcome


def _notes(study: Ladders, nodes: int) -> tuple[str, ...]:
    chance = 0.3 * math.sqrt(BINS / nodes)
    ece = f"ECE: with {nodes} nodes even perfect probabilities have up to about {chance:.3f}."
    return (*_NOTES, ece, *(_DOUBT if study.doubt else ()))


def results(outcome: SensitivityOutcome) -> dict[str, object]:
    """What a study found, as JSON has it.

    Args:
        outcome: of :func:`sensitivity`.
    """
    ladders = {name: list(map(asdict, rungs)) for name, rungs in outcome.ladders.items()}
    return {"title": outcome.title, **ladders, "notes": list(outcome.notes)}


def _report(outcome: SensitivityOutcome) -> None:
    folder = outcome.folder
    write_json(folder / "results.json", results(outcome))
    write_text(folder / "sensitivity.csv", sensitivity_csv(outcome.ladders))
    write_text(folder / "table.md", "\n".join(map(markdown, outcome.tables)))
    write_png(folder / "sensitivity.png", sensitivity_figure(outcome.ladders, title=outcome.title))
