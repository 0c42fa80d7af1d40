"""One method on one data set with one seed: trained once, tested at every level of noise."""

from __future__ import annotations

import time
from dataclasses import dataclass

from torch import Tensor

from varigraph.prediction import Prediction
from varigraph.studies.comparison.bench import Bench
from varigraph.studies.comparison.link_piece import LinkPiece
from varigraph.studies.comparison.methods import Method
from varigraph.studies.comparison.network_piece import NetworkPiece
from varigraph.studies.comparison.options import Options
from varigraph.studies.comparison.pieces import Piece
from varigraph.studies.comparison.scoring import scores_of
from varigraph.studies.config import NOISE
from varigraph.studies.pieces import Record

#: Nodes that the paper looks at one by one, in its table 3.
WATCHED = {"pubmed": (12, 13, 28)}


@dataclass(frozen=True)
class Cell:
    """``cells/<protocol>/<dataset>/<method>/seed-<seed>.json``.

    Args:
        method: what is trained and tested.
        dataset: name of the data set.
        seed: of everything that is drawn.
    """

    method: Method
    dataset: str
    seed: int

    @property
    def name(self) -> str:
        """Where it is kept, without suffix."""
        method = self.method
        return f"cells/{method.protocol}/{self.dataset}/{method.name}/seed-{self.seed}"

    @property
    def kind(self) -> str:
        """The method: each takes its own time."""
        return self.method.name

    def needs(self, options: Options) -> tuple[Piece, ...]:
        """The network that methods share, and the probabilities of links."""
        links = (LinkPiece(self.dataset),) if options.links is not None else ()
        return (*links, self._network) if self.method.shares_network else links

    def finished(self, options: Options) -> bool:
        """Whether there is a record of all levels."""
        return self.record(options) is not None

    def record(self, options: Options) -> Record | None:
        """What was found, or None where there is nothing to trust."""
        try:
            record = options.pieces.read_record(self._file) or {}
            noises = [level["noise"] for level in record["levels"] if "accuracy" in level["scores"]]
        except (KeyError, TypeError):
            return None
        return record if noises == list(NOISE) else None

    def make(self, options: Options) -> None:
        """Train, predict at every level, score, write it down."""
        start = time.process_time()
        bench = Bench(options, self.method.protocol, self.dataset, self.seed)
        spent = self._network.seconds(options) if self.method.shares_network else 0.0
        levels: list[Record] = []
        for noise in NOISE:
            if not levels or self.method.per_level:
                begun = time.process_time()
                fitted = self.method.fit(bench, noise)
                training = spent + time.process_time() - begun
            observed = bench.seen_through(noise)
            begun = time.process_time()
            prediction = fitted.predict(observed, samples=options.samples, seed=self.seed)
            predicting = time.process_time() - begun
            seconds = {"training_seconds": training, "prediction_seconds": predicting}
            levels.append({"noise": noise, **self._scored(prediction, bench), **seconds})
        record = {
            "name": self.name,
            "protocol": self.method.protocol,
            "dataset": self.dataset,
            "method": self.method.name,
            "seed": self.seed,
            "levels": levels,
            "seconds": time.process_time() - start,
        }
        options.pieces.write_record(self._file, record)

    def seconds(self, options: Options) -> float:
        """How long all of that took, without the network that methods share."""
        return float((self.record(options) or {})["seconds"])

    def _scored(self, prediction: Prediction, bench: Bench) -> Record:
        graph = bench.graph
        watched = WATCHED.get(self.dataset, ())
        return {
            "by": prediction.method,
            "scores": scores_of(prediction, graph.y, graph.test_mask),
            "nodes": [_node(node, prediction, graph.y, graph.train_mask) for node in watched],
        }

    @property
    def _network(self) -> NetworkPiece:
        return NetworkPiece(self.method.protocol, self.dataset, self.seed)

    @property
    def _file(self) -> str:
        return f"{self.name}.json"


def _node(node: int, prediction: Prediction, labels: Tensor, trained: Tensor) -> Record:
    return {
        "node": node,
        "probability": float(prediction.mean[node, labels[node]]),
        "variance": float(prediction.total[node].mean()),
        "trained_on": bool(trained[node]),
    }
