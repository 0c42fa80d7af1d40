"""Predictions at every point of the ladders, each kept in a file."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor
from torch_geometric.data import Data

from varigraph.data import add_noise
from varigraph.files.fingerprint import weights_fingerprint
from varigraph.prediction import predict
from varigraph.prediction.prediction import PARTS
from varigraph.quantify.rungs import Rung, rung
from varigraph.studies.ladders import Ladders
from varigraph.studies.pieces import Arrays, Pieces
from varigraph.studies.progress import Progress
from varigraph.training import PaperNetwork


@dataclass(frozen=True)
class LadderPoints:
    """Predictions by noise and doubt: each is read back if an earlier call made it, else made.

    Args:
        study: the levels, and how to predict.
        graph: with clean features and certain links.
        prob: probability of each link, ``[edges]``; None where all are certain.
        pieces: of the study, where predictions are kept.
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
            name in arrays and arrays[name].shape == shape for name in ("mean", *PARTS)
        )

    def rung(self, arrays: Arrays, *, level: float, input_var: str) -> Rung:
        """The scores of a prediction."""
        mean, *parts = (torch.from_numpy(arrays[name]) for name in ("mean", *PARTS))
        labels = self.graph.y[self.graph.test_mask]
        by_source = dict(zip(PARTS, parts, strict=True))
        return rung(mean, by_source, labels, level=level, input_var=float(arrays[input_var]))
