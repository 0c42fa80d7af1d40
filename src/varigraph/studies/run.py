"""The paper's experiment, end to end: train, perturb, predict, score, write it all down."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

import torch
from torch_geometric.data import Data

from varigraph.data import add_noise, load
from varigraph.moments.links import Reading
from varigraph.prediction import predict
from varigraph.prediction.prediction import PARTS
from varigraph.quantify import Level, score
from varigraph.reporting.plots import run_figure
from varigraph.reporting.tables import markdown
from varigraph.studies import folder as files
from varigraph.studies.config import NOISE, Study
from varigraph.studies.link_source import LinkSource, link_source
from varigraph.studies.paper import notes, published
from varigraph.studies.trained_network import FILE, trained_network
from varigraph.training import PaperNetwork

Progress = Callable[[str, int, int], None]


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
    tell = progress or (lambda stage, done, total: None)
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
        progress=lambda fraction, what: tell("links", round(100 * fraction), 100),
    )
    pieces = _Pieces(study, graph, folder, tell)
    model, reused = pieces.model()
    levels = []
    for index, level in enumerate(study.noise, start=1):
        found, again = pieces.level(model, level, trust=bool(reused))
        levels.append(found)
        reused += again
        pieces.progress("predicting", index, len(study.noise))
    title = f"{study.dataset}, {samples} masks, seed {seed}"
    if study.links is not None:
        title += f", links by {Path(study.links).name}, read as {reading}"
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
        path = self.folder / f"predictions-{noise:g}.npz"
        arrays = files.read_arrays(path) if trust else None
        reused = arrays is not None and self.complete(arrays)
        if arrays is None or not reused:
            arrays = self.predict(model, noise)
            files.write_arrays(path, arrays)
        nodes = self.graph.test_mask
        mean, *parts = (torch.from_numpy(arrays[name])[nodes] for name in ("mean", *PARTS))
        scores = score(mean, dict(zip(PARTS, parts, strict=True)), self.graph.y[nodes])
        level = Level(noise, scores, published(self.study.dataset, noise))
        return level, [path.name] if reused else []

    def predict(self, model: PaperNetwork, noise: float) -> files.Arrays:
        """Predictions for all nodes, as arrays."""
        noisy = add_noise(self.graph, percent=noise, seed=self.study.seed)
        made = predict(
            model,
            noisy,
            method="diagonal",
            links=self.study.reading,
            samples=self.study.samples,
            seed=self.study.seed,
        )
        tensors = {name: getattr(made, name) for name in _VARIANCES}
        tensors |= {"mean": made.mean, **made.by_source}
        tensors |= {"logits_mean": made.logits.mean, "logits_var": made.logits.var}
        tensors |= {"test_nodes": self.graph.test_mask.nonzero().flatten()}
        return {name: tensor.detach().cpu().numpy() for name, tensor in tensors.items()}

    def complete(self, arrays: files.Arrays) -> bool:
        """Whether the arrays read back are those that a run writes."""
        shape = (self.graph.num_nodes, int(self.graph.y.max()) + 1)
        return all(
            name in arrays and arrays[name].shape == shape
            for name in ("mean", *_VARIANCES, *PARTS, "logits_mean", "logits_var")
        )


_VARIANCES = ("aleatoric", "epistemic")


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
