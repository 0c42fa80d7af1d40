"""``varigraph report``: a page about a run."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import torch
import typer
from torch_geometric.data import Data

from varigraph.cli.mistakes import explained
from varigraph.cli.options import Json, Root
from varigraph.cli.progress import progress_bars
from varigraph.data import add_noise, load
from varigraph.errors import FileError, OptionError
from varigraph.moments import Gaussian
from varigraph.prediction import Prediction
from varigraph.prediction.predict import Method
from varigraph.prediction.prediction import PARTS
from varigraph.quantify import Audit, Level, audit, score
from varigraph.reporting.page import report as write_page
from varigraph.studies import folder as files
from varigraph.studies.config import Study
from varigraph.studies.link_source import LinkSource
from varigraph.studies.paper import published
from varigraph.studies.run import Progress
from varigraph.training.networks import PaperNetwork, paper_network

PAGE = "report.html"
#: What a run predicts with.
METHOD: Method = "diagonal"


def report(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="Folder of a run.")],
    *,
    out: Annotated[
        Path | None, typer.Option(help="File to write.", show_default=f"RUN/{PAGE}")
    ] = None,
    noise: Annotated[
        float | None,
        typer.Option(help="Level of noise to show.", show_default="the highest that is there"),
    ] = None,
    explain: Annotated[
        int, typer.Option(help="Nodes whose causes to compute, the most uncertain first.")
    ] = 30,
    audited: Annotated[
        int, typer.Option("--audit", help="Draws of brute force to audit with; 0 for no audit.")
    ] = 0,
    root: Root = None,
    as_json: Json = False,
) -> None:
    """Write one page about a run that opens offline: where the network is unsure, and why."""
    with explained(), progress_bars() as progress:
        made = _Run.read(run, root=root, progress=progress)
        level = made.chosen(noise)
        model, noisy = made.model(), add_noise(made.graph, percent=level, seed=made.study.seed)
        page = write_page(
            made.prediction(level),
            noisy,
            model=model,
            path=out or run / PAGE,
            title=f"{made.study.dataset}, noise {level:g} %, seed {made.study.seed}",
            levels=made.levels(),
            audit=_audit(model, noisy, made.study, audited) if audited else None,
            explain=explain,
            links=made.study.reading,
            about=made.about(level),
            warnings=made.warnings(),
        )
    if as_json:
        typer.echo(json.dumps({"page": str(page), "noise": level, "warnings": made.warnings()}))
    else:
        typer.echo("\n".join([*made.warnings(), str(page)]))


@dataclass(frozen=True)
class _Run:
    """What a run has finished.

    Args:
        folder: where it is.
        study: its options.
        graph: the data set, with ``edge_prob`` where links are uncertain.
        arrays: predictions by level of noise, of those levels that are finished.
        versions: of what made it.
    """

    folder: Path
    study: Study
    graph: Data
    arrays: dict[float, files.Arrays]
    versions: dict[str, str]

    @classmethod
    def read(cls, folder: Path, *, root: Path | None, progress: Progress) -> _Run:
        study, versions = _study(folder)
        graph = load(study.dataset, root=root, seed=study.seed)
        shape = (graph.num_nodes, int(graph.y.max()) + 1)
        found = {
            level: files.read_arrays(folder / f"predictions-{level:g}.npz") for level in study.noise
        }
        arrays = {
            level: held for level, held in found.items() if held is not None and _whole(held, shape)
        }
        if not arrays:
            raise OptionError(
                f"{folder} holds no predictions that can be read",
                f"varigraph run {study.dataset} --seed {study.seed} --out {folder}, "
                "which goes on where it was broken off",
            )
        graph = LinkSource.of(study.links, graph).applied(
            graph,
            study.dataset,
            seed=study.seed,
            folder=folder / files.LINKS,
            root=root,
            progress=lambda fraction, what: progress("links", round(100 * fraction), 100),
        )
        return cls(folder, study, graph, arrays, versions)

    def chosen(self, noise: float | None) -> float:
        if noise is None:
            return max(self.arrays)
        if noise not in self.arrays:
            there = ", ".join(f"{level:g}" for level in self.arrays)
            raise OptionError(
                f"{self.folder} has no predictions at noise {noise:g}", f"--noise, one of {there}"
            )
        return noise

    def model(self) -> PaperNetwork:
        model = paper_network(self.graph, seed=self.study.seed)
        try:
            model.load_state_dict(files.read_weights(self.folder / "model.pt") or {})
        except RuntimeError as error:
            raise FileError(
                self.folder / "model.pt",
                "does not hold the weights of the run",
                f"varigraph run {self.study.dataset} --out {self.folder} --fresh",
            ) from error
        return model.eval()

    def prediction(self, level: float) -> Prediction:
        tensors = {name: torch.from_numpy(held) for name, held in self.arrays[level].items()}
        return Prediction(
            mean=tensors["mean"],
            by_source={part: tensors[part] for part in PARTS},
            logits=Gaussian(tensors["logits_mean"], tensors["logits_var"]),
            method=METHOD,
            samples=self.study.samples,
        )

    def levels(self) -> list[Level]:
        nodes, found = self.graph.test_mask, []
        for noise in self.arrays:
            made = self.prediction(noise)
            parts = {part: var[nodes] for part, var in made.by_source.items()}
            scores = score(made.mean[nodes], parts, self.graph.y[nodes])
            found.append(Level(noise, scores, published(self.study.dataset, noise)))
        return found

    def about(self, level: float) -> dict[str, Any]:
        links = "all taken as certain"
        if self.study.links is not None:
            links = f"{Path(self.study.links).name}, read as {self.study.reading}"
        versions = ", ".join(f"{name} {number}" for name, number in self.versions.items())
        return {
            "Data set": self.study.dataset,
            "Noise": f"{level:g} % of the mean feature",
            "Links": links,
            "Seed": self.study.seed,
            "Training": f"{self.study.epochs} epochs",
            "Run made with": versions,
        }

    def warnings(self) -> list[str]:
        missing = [f"{level:g}" for level in self.study.noise if level not in self.arrays]
        if not missing and (self.folder / "results.json").is_file():
            return []
        lacks = f"no predictions at noise {', '.join(missing)}" if missing else "no results.json"
        return [f"This run was cut short: it has {lacks}. The command that made it goes on."]


def _study(folder: Path) -> tuple[Study, dict[str, str]]:
    config = folder / files.CONFIG
    try:
        held = json.loads(config.read_text())
        names = ("dataset", "seed", "samples", "epochs", "links", "reading")
        options = {name: held[name] for name in names}
        return Study(**options, noise=tuple(held["noise"])), dict(held["versions"])
    except FileNotFoundError as error:
        raise OptionError(
            f"{folder} holds no {files.CONFIG}, so it is not a run",
            "name the folder that `varigraph run` printed last",
        ) from error
    except (ValueError, KeyError, TypeError, OSError) as error:
        raise FileError(
            config, "holds no options of a run", "make the run again: varigraph run --fresh"
        ) from error


def _whole(arrays: files.Arrays, shape: tuple[int, int]) -> bool:
    names = ("mean", *PARTS, "logits_mean", "logits_var")
    return all(name in arrays and arrays[name].shape == shape for name in names)


def _audit(model: PaperNetwork, noisy: Data, study: Study, samples: int) -> Audit:
    return audit(
        model,
        noisy,
        method=METHOD,
        samples=samples,
        links=study.reading,
        seed=study.seed,
        nodes=noisy.test_mask,
    )
