"""The cells of the tables: one method on one data set with one seed, at every level of noise."""

from __future__ import annotations

import math
import time
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass

from torch import Tensor

from varigraph.errors import OptionError
from varigraph.metrics import accuracy, brier, cross_entropy, ece, per_class_nll, spot_errors
from varigraph.prediction import Prediction
from varigraph.studies.comparison.methods import Method
from varigraph.studies.comparison.pieces import Bench, LinkPiece, NetworkPiece, Piece
from varigraph.studies.comparison.protocols import Options
from varigraph.studies.config import NOISE
from varigraph.studies.folder import Record

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
        """Where it is stored, without suffix."""
        method = self.method
        return f"cells/{method.protocol}/{self.dataset}/{method.name}/seed-{self.seed}"

    @property
    def kind(self) -> str:
        """The method: each takes its own time."""
        return self.method.name

    def prerequisites(self, options: Options) -> tuple[Piece, ...]:
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
        same = record.get("made_by", "") == self.method.made_by
        return record if noises == list(NOISE) and same else None

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
            "made_by": self.method.made_by,
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


def scores_of(prediction: Prediction, labels: Tensor, nodes: Tensor) -> dict[str, float | None]:
    """Scores by name; None where there is nothing to score.

    ``total``, ``aleatoric`` and ``epistemic`` are variances, averaged over nodes and classes.
    Errors are spotted by the total variance, summed over classes; where all variances are 0 there
    is nothing to spot them by, and no ``per_class_nll`` either.

    Args:
        prediction: of all nodes.
        labels: true classes of all nodes, ``[nodes]``.
        nodes: the nodes to score, a mask ``[nodes]``.
    """
    mean, truth = prediction.mean[nodes], labels[nodes]
    variances = {
        "total": prediction.total[nodes].double(),
        "aleatoric": prediction.aleatoric[nodes].double(),
        "epistemic": prediction.epistemic[nodes].double(),
    }
    total = variances["total"].clamp_min(0)  # differences of draws may be below 0
    spotted = asdict(spot_errors(mean, truth, total.sum(dim=1)))
    certain = not bool(total.any())
    if certain:
        spotted |= {name: None for name in spotted if not name.startswith("confidence")}
    found = {
        "accuracy": accuracy(mean, truth),
        "cross_entropy": cross_entropy(mean, truth),
        "per_class_nll": None if certain else per_class_nll(mean, total, truth),
        **{name: float(var.mean()) for name, var in variances.items()},
        "brier": brier(mean, truth),
        "ece": ece(mean, truth),
        **spotted,
    }
    return {name: _finite(value) for name, value in found.items()}


def _finite(value: float | None) -> float | None:
    return value if value is not None and math.isfinite(value) else None


#: The data set that each table is about; table 1 is about the data sets themselves.
DATASET = {2: "cora", 3: "pubmed", 4: "cora", 5: "computers", 6: "pubmed"}
TABLES = (1, *DATASET)
#: The methods of the two tables that do not have all of them.
BGCN, BGNN = "bgcn-map", "bgnn"
TABLE_METHODS = {2: (BGCN, BGNN), 3: (BGNN, "first-order", "noise-aware")}
#: What a quick look leaves out.
SLOW = ("computers", "pubmed")


def tables_of(wanted: Sequence[int], *, quick: bool) -> tuple[int, ...]:
    """The tables to make, in order.

    Args:
        wanted: by number; none for all.
        quick: leave out the large data sets.

    Raises:
        OptionError: naming a table that does not exist.
    """
    possible = [table for table in TABLES if not (quick and DATASET.get(table) in SLOW)]
    for table in wanted:
        if table not in TABLES:
            raise OptionError(f"there is no table {table}", f"choose from 1 to {max(TABLES)}")
        if table not in possible:
            raise OptionError(
                f"table {table} is about {DATASET[table]}, which a quick look leaves out",
                f"leave out --quick, or choose from {', '.join(map(str, possible))}",
            )
    return tuple(table for table in possible if not wanted or table in wanted)


def cells_of(tables: Iterable[int], methods: Sequence[Method], *, seeds: int) -> list[Cell]:
    """The cells that tables need, each once: seed by seed, in the order of the methods.

    Whenever a study is interrupted, what it has finished is a whole smaller study.

    Args:
        tables: by number.
        methods: that are compared.
        seeds: how many; a slow method may get fewer.
    """
    if seeds < 1:
        raise OptionError(f"seeds is {seeds}", "run at least one: seeds=5")
    cells = {
        cell.name: cell
        for method in methods
        for table in tables
        if (dataset := DATASET.get(table))
        if dataset in method.datasets and method.name in TABLE_METHODS.get(table, (method.name,))
        for cell in (Cell(method, dataset, seed) for seed in method.seeds(dataset, seeds))
    }
    return sorted(cells.values(), key=lambda cell: cell.seed)
