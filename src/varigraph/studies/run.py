"""The paper's experiment, end to end: train, perturb, predict, score, write it all down."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

from torch_geometric.data import Data

from varigraph.data import add_noise, load
from varigraph.moments.links import Reading
from varigraph.prediction import Prediction, predict
from varigraph.quantify import Level
from varigraph.reporting.plots import run_figure
from varigraph.reporting.tables import markdown
from varigraph.studies import folder as files
from varigraph.studies.config import NOISE, Study
from varigraph.studies.link_source import LinkSource, link_source
from varigraph.studies.paper import notes
from varigraph.studies.progress import Progress, in_hundredths, quiet
from varigraph.studies.stored_prediction import (
    METHOD,
    complete,
    file_of,
    level_of,
    restored,
    stored,
)
from varigraph.studies.trained_network import FILE, trained_network
from varigraph.training import PaperNetwork


@dataclass(frozen=True)
class Outcome:
    """What a run found.

    Args:
        title: what was run, in a line.
        folder: where everything was written.
        levels: scores at each level of noise, next to the paper's.
        notes: what a reader must know before comparing the two.
        reused: the files of an earlier run that were taken over.
        graph: the data set, with ``edge_prob`` where links are uncertain.
    """

    title: str
    folder: Path
    levels: tuple[Level, ...]
    notes: tuple[str, ...]
    reused: tuple[str, ...]
    graph: Data = field(repr=False, compare=False)


def run(
    dataset: str = "cora",
    *,
    out: str | Path | None = None,
    seed: int = 0,
    samples: int = 100,
    noise: Sequence[float] = NOISE,
    epochs: int = 50,
    links: str | None = None,
    reading: Reading = "bernoulli",
    root: str | Path | None = None,
    fresh: bool = False,
    progress: Progress | None = None,
) -> Outcome:
    """Train the paper's network and predict under growing noise; score the test nodes.

    A run that was broken off goes on where it stopped; what it had finished is used again, if it
    can still be read. Every file is whole or absent.

    Args:
        dataset: name of a data set, see :func:`varigraph.load`.
        out: folder to write; ``runs/<dataset>-seed<seed>`` if left out.
        seed: of everything that is drawn.
        samples: dropout masks per prediction.
        noise: levels of noise, in per cent of the mean feature.
        epochs: passes over the training nodes.
        links: where the probabilities of links come from: ``seal`` or ``hadamard``, see
            :func:`varigraph.link_probabilities`, or a file that has all of them; None takes every
            link as certain. They weigh the messages in training as well.
        reading: how the probability of a link is read.
        root: folder that holds the data sets.
        fresh: replace an earlier run in the same folder.
        progress: called with a stage, the steps done and the number of steps.
    """
    study = Study(
        dataset.lower(),
        seed,
        samples,
        tuple(float(level) for level in noise),
        epochs,
        link_source(links),
        reading,
    )
    tell = progress or quiet
    graph = load(study.dataset, root=root, seed=seed)
    folder = Path(out) if out is not None else Path("runs") / f"{study.dataset}-seed{seed}"
    source = LinkSource.of(study.links, graph)
    files.claim(folder, {**study.record(), "edge_prob": source.fingerprint}, fresh=fresh)
    graph = source.applied(
        graph,
        study.dataset,
        seed=seed,
        folder=folder / files.LINKS,
        root=root,
        progress=in_hundredths(tell, "links"),
    )
    pieces = _Pieces(study, graph, folder, tell)
    model, reused = pieces.model()
    levels = []
    for index, level in enumerate(study.noise, start=1):
        found, again = pieces.level(model, level, trust=bool(reused))
        levels.append(found)
        reused += again
        pieces.progress("predicting", index, len(study.noise))
    title = f"{study.dataset}, {samples} masks, seed {seed}{study.about_links}"
    remarks = (*notes(study.dataset), *([source.note] if source.note else []))
    outcome = Outcome(title, folder, tuple(levels), remarks, tuple(reused), graph)
    _report(outcome)
    return outcome


@dataclass(frozen=True)
class _Pieces:
    """The parts of a run: each is read back if an earlier run finished it, else made."""

    study: Study
    graph: Data
    folder: Path
    progress: Progress

    def model(self) -> tuple[PaperNetwork, list[str]]:
        """The trained network, and its file if it was used again."""
        model, reused = trained_network(
            self.graph,
            self.folder,
            epochs=self.study.epochs,
            seed=self.study.seed,
            progress=self.progress,
        )
        return model, [FILE] if reused else []

    def level(self, model: PaperNetwork, noise: float, *, trust: bool) -> tuple[Level, list[str]]:
        """Scores at one level of noise, and the file of its predictions if it was used again."""
        path = self.folder / file_of(noise)
        arrays = files.read_arrays(path) if trust else None
        reused = arrays is not None and complete(arrays, self.graph)
        if arrays is None or not reused:
            arrays = stored(self.predict(model, noise), self.graph)
            files.write_arrays(path, arrays)
        made = restored(arrays, samples=self.study.samples)
        level = level_of(made, self.graph, dataset=self.study.dataset, noise=noise)
        return level, [path.name] if reused else []

    def predict(self, model: PaperNetwork, noise: float) -> Prediction:
        """Predictions for all nodes."""
        noisy = add_noise(self.graph, percent=noise, seed=self.study.seed)
        return predict(
            model,
            noisy,
            method=METHOD,
            links=self.study.reading,
            samples=self.study.samples,
            seed=self.study.seed,
        )


def results(outcome: Outcome) -> dict[str, object]:
    """What a run found, as JSON has it.

    Args:
        outcome: of :func:`run`.
    """
    return {
        "title": outcome.title,
        "levels": [asdict(level) for level in outcome.levels],
        "notes": list(outcome.notes),
    }


def _report(outcome: Outcome) -> None:
    folder, title = outcome.folder, outcome.title
    files.write_json(folder / "results.json", results(outcome))
    files.write_text(
        folder / "table.md", markdown(outcome.levels, title=title, notes=outcome.notes)
    )
    with files.replacing(folder / "uncertainty.png") as stream:
        run_figure(outcome.levels, title=title).savefig(stream, format="png", dpi=150)
