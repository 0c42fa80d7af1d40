"""Output variance and error against the uncertainty of the inputs, source by source."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, get_args

import torch
from torch import Tensor
from torch_geometric.data import Data

from varigraph.choices import Method, Reading
from varigraph.data import add_noise, load
from varigraph.errors import OptionError
from varigraph.files import write_json, write_text
from varigraph.files.fingerprint import weights_fingerprint
from varigraph.metrics.calibration import BINS
from varigraph.prediction import predict
from varigraph.prediction.sources.source import all_parts
from varigraph.quantify.levels import Rung, rung
from varigraph.reporting.plots import write_png
from varigraph.reporting.sensitivity import sensitivity_csv, sensitivity_figure, sensitivity_table
from varigraph.reporting.text_table import TextTable, markdown
from varigraph.studies.config import Progress, Study, quiet
from varigraph.studies.defaults import DOUBT, NOISE
from varigraph.studies.folder import Arrays, Pieces, claimed
from varigraph.studies.links import LinkSource, link_source
from varigraph.studies.run import WEIGHTS_FILE, trained_network
from varigraph.training import PaperNetwork


@dataclass(frozen=True)
class Ladders(Study):
    """The options of a study whose inputs get less certain step by step.

    Args:
        method: how to predict.
        doubt: levels of doubt about links, in per cent of that found; none where all are certain.
    """

    noise: tuple[float, ...] = NOISE
    method: Method = "first-order"
    doubt: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.method not in get_args(Method):
            raise OptionError(
                f"method is {self.method!r}", f"choose one of {', '.join(get_args(Method))}"
            )
        if self.method == "sampled" and self.samples == 0:
            raise OptionError("the method sampled has samples 0", "draw some: samples=100")
        if bool(self.doubt) != (self.links is not None):
            raise OptionError(
                f"doubt is {self.doubt}, links is {self.links}",
                "give levels of doubt with links that can be doubted: links='hadamard'",
            )
        if not all(0 <= level <= 100 for level in self.doubt):
            raise OptionError(f"doubt is {self.doubt}", "levels go from 0 to 100: doubt=(0, 50)")
        if len(set(self.doubt)) < len(self.doubt):
            raise OptionError(f"doubt is {self.doubt}", f"give every level once: doubt={DOUBT}")

    def record(self) -> dict[str, Any]:
        """The options and the versions of what computes them, as a JSON object."""
        return {"study": "sensitivity", **super().record(), "doubt": list(self.doubt)}


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
        """A table for each ladder; the notes are below the last."""
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
    r"""Predict with one network while the inputs get less certain; score the test nodes.

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
        doubt: levels of t, in per cent; ignored where every link is certain.
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
    progress = progress or quiet
    graph = load(study.dataset, root=root, seed=seed)
    name = f"{study.dataset}-sensitivity-seed{seed}"
    folder = Path(out) if out is not None else Path("runs") / name
    source = LinkSource.of(study.links, graph)
    config = {**study.record(), "edge_prob": source.fingerprint}
    with claimed(folder, config, fresh=fresh) as pieces:
        doubted = source.in_study(study, graph, folder=folder, root=root, progress=progress)
        model, read_back = trained_network(
            graph, pieces, epochs=epochs, seed=seed, progress=progress
        )
        points = LadderPoints(study, graph, doubted.get("edge_prob"), pieces, progress)
        ladders, reused = points.ladders(model)
        outcome = SensitivityOutcome(
            f"{study.dataset}, {method}, seed {seed}{study.about_links}",
            folder,
            ladders,
            (*_notes(study, int(graph.test_mask.sum())), *([source.note] if source.note else [])),
            (*([WEIGHTS_FILE] if read_back else []), *reused),
        )
        _report(outcome)
    return outcome


def _notes(study: Ladders, nodes: int) -> tuple[str, ...]:
    chance = 0.3 * math.sqrt(BINS / nodes)
    ece = f"ECE: with {nodes} nodes even perfect probabilities have up to about {chance:.3f}."
    return (*_NOTES, ece, *(_DOUBT if study.doubt else ()))


def results(outcome: SensitivityOutcome) -> dict[str, object]:
    """What a study found, as a JSON object.

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


@dataclass(frozen=True)
class LadderPoints:
    """Predictions by noise and doubt: each is read back if an earlier call made it, else made.

    Args:
        study: the levels, and how to predict.
        graph: with clean features and certain links.
        prob: probability of each link, ``[edges]``; None where all are certain.
        pieces: of the study, where predictions are stored.
        progress: called with a stage, the steps done and the number of steps.
    """

    study: Ladders
    graph: Data
    prob: Tensor | None
    pieces: Pieces
    progress: Progress

    def ladders(self, model: PaperNetwork) -> tuple[dict[str, tuple[Rung, ...]], list[str]]:
        """The rungs of every ladder, and the files that were used again."""
        found = 0.0 if self.prob is None else 100.0
        places = {
            "noise": [(level, found) for level in self.study.noise],
            "doubt": [(0.0, level) for level in self.study.doubt],
        }
        points = list(dict.fromkeys([*places["noise"], *places["doubt"]]))
        network = weights_fingerprint(model.state_dict())
        made: dict[tuple[float, float], Arrays] = {}
        reused = []
        for number, point in enumerate(points, start=1):
            made[point], again = self.point(model, *point, network=network)
            reused += again
            self.progress("predicting", number, len(points))
        ladders = {
            ladder: tuple(
                self.rung(made[point], level=point[place], input_var=f"{ladder}_var")
                for point in steps
            )
            for place, (ladder, steps) in enumerate(places.items())
            if steps
        }
        return ladders, reused

    def point(
        self, model: PaperNetwork, noise: float, doubt: float, *, network: str
    ) -> tuple[Arrays, list[str]]:
        """Predictions for the test nodes, and their file if it was used again."""
        name = f"predictions-noise-{noise:g}-doubt-{doubt:g}.npz"
        arrays = self.pieces.read_arrays(name, network=network)
        if arrays is not None and self.complete(arrays):
            return arrays, [name]
        arrays = self.predict(model, noise, doubt)
        self.pieces.write_arrays(name, arrays, network=network)
        return arrays, []

    def predict(self, model: PaperNetwork, noise: float, doubt: float) -> Arrays:
        """Predictions for the test nodes, as arrays."""
        observed = add_noise(self.graph, percent=noise, seed=self.study.seed)
        chance = torch.ones(())
        if self.prob is not None and doubt > 0:
            observed.edge_prob = chance = 1 - doubt / 100 * (1 - self.prob)
        made = predict(
            model,
            observed,
            method=self.study.method,
            links=self.study.reading,
            samples=self.study.samples,
            seed=self.study.seed,
            nodes=self.graph.test_mask,
        )
        tensors = {
            "mean": made.mean,
            **made.by_source,
            "noise_var": torch.as_tensor(observed.x_var),
            "doubt_var": (chance.double() * (1 - chance.double())).mean(),
        }
        return {name: tensor.detach().cpu().numpy() for name, tensor in tensors.items()}

    def complete(self, arrays: Arrays) -> bool:
        """Whether the arrays read back are those that a study writes."""
        shape = (int(self.graph.test_mask.sum()), int(self.graph.y.max()) + 1)
        return {"noise_var", "doubt_var"} <= arrays.keys() and all(
            name in arrays and arrays[name].shape == shape for name in ("mean", *all_parts())
        )

    def rung(self, arrays: Arrays, *, level: float, input_var: str) -> Rung:
        """The scores of a prediction."""
        mean, *parts = (torch.from_numpy(arrays[name]) for name in ("mean", *all_parts()))
        labels = self.graph.y[self.graph.test_mask]
        by_source = dict(zip(all_parts(), parts, strict=True))
        return rung(mean, by_source, labels, level=level, input_var=float(arrays[input_var]))
