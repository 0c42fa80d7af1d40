"""A network with error bars, end to end: train, perturb, predict, score, write it all down."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

import torch
from torch_geometric.data import Data

from varigraph.choices import Method, Reading
from varigraph.data import add_noise, load
from varigraph.files import write_json, write_text
from varigraph.files.fingerprint import weights_fingerprint
from varigraph.moments import Gaussian
from varigraph.prediction import Prediction, predict
from varigraph.prediction.processor import one_thread_each
from varigraph.prediction.rows import Rows
from varigraph.prediction.sources.source import all_parts
from varigraph.quantify import Level, score
from varigraph.reporting.plots import run_figure, write_png
from varigraph.reporting.tables import level_table
from varigraph.reporting.text_table import markdown
from varigraph.studies.config import NOISE, Progress, Study, quiet
from varigraph.studies.folder import Arrays, Pieces, claimed
from varigraph.studies.links import LinkSource, link_source
from varigraph.training import PaperNetwork, paper_network, train

#: What a run predicts with.
METHOD: Method = "first-order"
WEIGHTS_FILE = "model.pt"


@dataclass(frozen=True)
class Outcome:
    """What a run found.

    Args:
        title: what was run, in a line.
        folder: where everything was written.
        levels: scores at each level of noise.
        notes: what a reader must know about them.
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
    """Train the paper's network and predict under growing noise by first order; score test nodes.

    A run that was interrupted goes on where it stopped; what it had finished is used again, if it
    can still be read and these options made it. Every file is whole or absent. One run at a time
    works in a folder.

    Args:
        dataset: name of a data set, see :func:`varigraph.load`.
        out: folder to write; ``runs/<dataset>-seed<seed>`` if left out.
        seed: of everything that is drawn.
        samples: dropout masks of the published method, where it is compared with.
        noise: levels of noise, in per cent of the mean feature.
        epochs: passes over the training nodes.
        links: where the probabilities of links come from: ``seal`` or ``hadamard``, see
            :func:`varigraph.link_probabilities`, or a file that has all of them; None takes every
            link as certain. They weight the messages in training as well.
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
    progress = progress or quiet
    graph = load(study.dataset, root=root, seed=seed)
    folder = Path(out) if out is not None else Path("runs") / f"{study.dataset}-seed{seed}"
    source = LinkSource.of(study.links, graph)
    config = {**study.record(), "edge_prob": source.fingerprint}
    with claimed(folder, config, fresh=fresh) as pieces:
        graph = source.in_study(study, graph, folder=folder, root=root, progress=progress)
        model, read_back = trained_network(
            graph, pieces, epochs=epochs, seed=seed, progress=progress
        )
        levels, reused = _Levels(study, graph, pieces, model).all(progress)
        outcome = Outcome(
            f"{study.dataset}, {METHOD}, seed {seed}{study.about_links}",
            folder,
            tuple(levels),
            (source.note,) if source.note else (),
            (*([WEIGHTS_FILE] if read_back else []), *reused),
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
        network = made_by(self.model)
        levels, reused = list[Level](), list[str]()
        for number, noise in enumerate(self.study.noise, start=1):
            level, again = self.level(noise, network)
            levels.append(level)
            reused += again
            progress("predicting", number, len(self.study.noise))
        return levels, reused

    def level(self, noise: float, network: str) -> tuple[Level, list[str]]:
        """Scores at one level of noise, and the file of its predictions if it was used again."""
        name = prediction_file(noise)
        arrays = self.pieces.read_arrays(name, network=network)
        reused = arrays is not None and complete(arrays, self.graph)
        if arrays is None or not reused:
            arrays = stored(self.predict(noise), self.graph)
            self.pieces.write_arrays(name, arrays, network=network)
        level = level_of(restored(arrays, self.graph), self.graph, noise=noise)
        return level, [name] if reused else []

    def predict(self, noise: float) -> Prediction:
        """Predictions for all nodes."""
        noisy = add_noise(self.graph, percent=noise, seed=self.study.seed)
        return predict(
            self.model, noisy, method=METHOD, links=self.study.reading, seed=self.study.seed
        )


def results(outcome: Outcome) -> dict[str, object]:
    """What a run found, as a JSON object.

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
    table = level_table(outcome.levels, title=title, notes=outcome.notes)
    write_text(folder / "table.md", markdown(table))
    write_png(folder / "uncertainty.png", run_figure(outcome.levels, title=title))


def made_by(model: PaperNetwork) -> str:
    """What predictions depend on besides the options of a run: the method and the weights."""
    return f"{METHOD}, {weights_fingerprint(model.state_dict())}"


def prediction_file(noise: float) -> str:
    """The name of the file for a level of noise."""
    return f"predictions-{noise:g}.npz"


def stored(prediction: Prediction, graph: Data) -> Arrays:
    """A prediction as arrays, with the numbers of the test nodes.

    Args:
        prediction: of all nodes.
        graph: with ``test_mask``.
    """
    tensors = {"mean": prediction.mean, **prediction.by_source}
    tensors |= {name: getattr(prediction, name) for name in ("aleatoric", "epistemic")}
    tensors |= {"logits_mean": prediction.logits.mean, "logits_var": prediction.logits.var}
    tensors |= {} if prediction.plain is None else {"plain": prediction.plain}
    tensors |= {"test_nodes": graph.test_mask.nonzero().flatten()}
    return {name: tensor.detach().cpu().numpy() for name, tensor in tensors.items()}


def complete(arrays: Arrays, graph: Data) -> bool:
    """Whether arrays that were read back are those that a run writes.

    Args:
        arrays: by name.
        graph: that they are to be about.
    """
    shape = (graph.num_nodes, int(graph.y.max()) + 1)
    return all(name in arrays and arrays[name].shape == shape for name in _names())


def _names() -> tuple[str, ...]:
    return "mean", "aleatoric", "epistemic", *all_parts(), "logits_mean", "logits_var"


def restored(arrays: Arrays, graph: Data) -> Prediction:
    """The prediction behind complete arrays.

    Args:
        arrays: of :func:`stored`.
        graph: that they are about.
    """
    tensors = {name: torch.from_numpy(arrays[name]) for name in _names()}
    return Prediction(
        mean=tensors["mean"],
        by_source={part: tensors[part] for part in all_parts()},
        logits=Gaussian(tensors["logits_mean"], tensors["logits_var"]),
        method=METHOD,
        samples=0,
        plain=torch.from_numpy(arrays["plain"]) if "plain" in arrays else None,
        rows=Rows(
            outputs=graph.get("class_names"),
            edge_index=graph.edge_index,
            trained_on=graph.train_mask,
        ),
    )


def level_of(prediction: Prediction, graph: Data, *, noise: float) -> Level:
    """Scores of the test nodes.

    Args:
        prediction: of all nodes.
        graph: with labels and ``test_mask``.
        noise: in per cent of the mean feature.
    """
    nodes = graph.test_mask
    parts = {part: var[nodes] for part, var in prediction.by_source.items()}
    return Level(noise, score(prediction.mean[nodes], parts, graph.y[nodes]))


def read_network(graph: Data, pieces: Pieces, *, seed: int) -> PaperNetwork | None:
    """The network that was trained in a folder, in evaluation mode; None where there is none.

    Args:
        graph: that it was trained on.
        pieces: of the study that trained it.
        seed: of the run.
    """
    model, state = paper_network(graph, seed=seed), pieces.read_weights(WEIGHTS_FILE)
    sizes = {name: value.shape for name, value in model.state_dict().items()}
    if state is None or {name: value.shape for name, value in state.items()} != sizes:
        return None
    model.load_state_dict(state)
    return model.eval()


def trained_network(
    graph: Data,
    pieces: Pieces,
    *,
    epochs: int,
    seed: int,
    progress: Progress,
) -> tuple[PaperNetwork, bool]:
    """The network in evaluation mode, and whether it was read back.

    Args:
        graph: to train on.
        pieces: of the study; its weights are stored there, and the history of its training.
        epochs: passes over the training nodes.
        seed: of the first weights and the training.
        progress: called with a stage, the steps done and the number of steps.
    """
    known = read_network(graph, pieces, seed=seed)
    if known is not None:
        return known, True
    model = paper_network(graph, seed=seed)
    # On small batches more threads only wait, on a busy machine ten times as long.
    with one_thread_each():
        history = train(
            model,
            graph,
            epochs=epochs,
            seed=seed,
            progress=lambda epoch, total, loss: progress("training", epoch, total),
        )
    write_json(pieces.folder / "training.json", asdict(history))
    pieces.write_weights(WEIGHTS_FILE, model.state_dict())
    return model, False
