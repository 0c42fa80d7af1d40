"""The paper's experiment, end to end: train, perturb, predict, score, write it all down."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

from torch_geometric.data import Data

from varigraph.data import add_noise, load
from varigraph.files import write_json, write_text
from varigraph.files.fingerprint import weights_fingerprint
from varigraph.moments.links import Reading
from varigraph.prediction import Prediction, predict
from varigraph.quantify import Level
from varigraph.reporting.plots import run_figure, write_png
from varigraph.reporting.tables import markdown
from varigraph.studies.config import NOISE, Study
from varigraph.studies.folder import LINKS, claimed
from varigraph.studies.link_source import LinkSource, link_source
from varigraph.studies.paper import notes
from varigraph.studies.pieces import Pieces
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
        model: the trained network, in evaluation mode.
    """

    title: str
    folder: Path
    levels: tuple[Level, ...]
    notes: tuple[str, ...]
    reused: tuple[str, ...]
    graph: Data = field(repr=False, compare=False)
    model: PaperNetwork = field(repr=False, compare=False)


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
    can still be read and these options made it. Every file is whole or absent. One run at a time
    works in a folder.

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
    with claimed(folder, {**study.record(), "edge_prob": source.fingerprint}, fresh=fresh) as kept:
        graph = source.applied(
            graph,
            study.dataset,
            seed=seed,
            folder=folder / LINKS,
            root=root,
            progress=in_hundredths(tell, "links"),
        )
        model, again = trained_network(graph, kept, epochs=epochs, seed=seed, progress=tell)
        levels, reused = _Levels(study, graph, kept, model).all(tell)
        outcome = Outcome(
            f"{study.dataset}, {samples} masks, seed {seed}{study.about_links}",
            folder,
            tuple(levels),
            (*notes(study.dataset), *([source.note] if source.note else [])),
            (*([FILE] if again else []), *reused),
            graph,
            model,
        )
        _report(outcome)
    return outcome


@dataclass(frozen=True)
class _Levels:
    """Predictions at every level: each is read back if an earlier run finished it, else made."""

    study: Study
    graph: Data
    pieces: Pieces
    model: PaperNetwork

    def all(self, progress: Progress) -> tuple[list[Level], list[str]]:
        """Scores at every level of noise, and the files that were used again."""
        network = weights_fingerprint(self.model.state_dict())
        levels, reused = list[Level](), list[str]()
        for number, noise in enumerate(self.study.noise, start=1):
            level, again = self.level(noise, network)
            levels.append(level)
            reused += again
            progress("predicting", number, len(self.study.noise))
        return levels, reused

    def level(self, noise: float, network: str) -> tuple[Level, list[str]]:
        """Scores at one level of noise, and the file of its predictions if it was used again."""
        name = file_of(noise)
        arrays = self.pieces.read_arrays(name, network=network)
        reused = arrays is not None and complete(arrays, self.graph)
        if arrays is None or not reused:
            arrays = stored(self.predict(noise), self.graph)
            self.pieces.write_arrays(name, arrays, network=network)
        made = restored(arrays, samples=self.study.samples)
        level = level_of(made, self.graph, dataset=self.study.dataset, noise=noise)
        return level, [name] if reused else []

    def predict(self, noise: float) -> Prediction:
        """Predictions for all nodes."""
        noisy = add_noise(self.graph, percent=noise, seed=self.study.seed)
        return predict(
            self.model,
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
    write_json(folder / "results.json", results(outcome))
    write_text(folder / "table.md", markdown(outcome.levels, title=title, notes=outcome.notes))
    write_png(folder / "uncertainty.png", run_figure(outcome.levels, title=title))
