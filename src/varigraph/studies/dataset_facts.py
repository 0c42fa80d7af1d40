"""What is known about each data set: its size, its origin, and whether its files are there."""

from __future__ import annotations

import os
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from torch_geometric.data import Data
from torch_geometric.utils import degree

from varigraph.choices import DATASETS
from varigraph.data import load
from varigraph.data.data_sets import DATA_SETS, VARIABLE, cache_folder, raw_folder
from varigraph.data.graphs import CORA_LICENSE, CORA_ORIGIN
from varigraph.errors import DatasetError

SPLIT = "70 % training, 10 % validation, 20 % test, at random by seed"
#: Levels of noise in the paper, in per cent of the mean feature.
LEVELS = (2.5, 5.0, 12.0)
PLANETOID = ("github.com/kimiyoung/planetoid", "MIT (that repository)")
BENCHMARK = ("github.com/shchur/gnn-benchmark", "MIT (that repository)")


@dataclass(frozen=True)
class Size:
    """How large a data set is; links count once for both directions."""

    nodes: int
    links: int
    features: int
    classes: int


SIZES = {
    "cora": Size(2_708, 5_278, 1_433, 7),
    "citeseer": Size(3_327, 4_552, 3_703, 6),
    "pubmed": Size(19_717, 44_324, 500, 3),
    "computers": Size(13_752, 245_861, 767, 10),
    "photo": Size(7_650, 119_081, 745, 8),
}
ORIGINS = {
    "cora": (CORA_ORIGIN, CORA_LICENSE),
    "citeseer": PLANETOID,
    "pubmed": PLANETOID,
    "computers": BENCHMARK,
    "photo": BENCHMARK,
}


@dataclass(frozen=True)
class DatasetFacts:
    """A data set, without reading it.

    Args:
        name: as :func:`varigraph.load` takes it.
        size: how large it is.
        source: where it comes from.
        licence: of that source.
        there: whether its files are on this machine.
        place: where they are; where not, what was found instead.
        looked_in: folders that are searched, in this order; none for what is in the package.
    """

    name: str
    size: Size
    source: str
    licence: str
    there: bool
    place: str
    looked_in: tuple[str, ...]

    def record(self) -> dict[str, Any]:
        """All of it, as a JSON object."""
        plain = asdict(self)
        size = plain.pop("size")
        return {**plain, **size, "split": SPLIT, "looked_in": list(self.looked_in)}


def dataset_facts(name: str, *, root: Path | None = None) -> DatasetFacts:
    """What is known about a data set; nothing is downloaded or read.

    Args:
        name: of a data set, in any case.
        root: folder that holds the data sets; else ``$VARIGRAPH_DATA``.

    Raises:
        DatasetError: if the name is unknown, or the root is not a folder.
    """
    key = name.lower()
    if key not in SIZES:
        raise DatasetError(
            f"no data set is called {name!r}", f"choose one of {', '.join(DATASETS)}"
        )
    source, licence = ORIGINS[key]
    if key == "cora":
        return DatasetFacts(key, SIZES[key], source, licence, True, "in this package", ())
    there, place = _place(key, root)
    return DatasetFacts(key, SIZES[key], source, licence, there, place, _looked_in(root))


def all_facts(*, root: Path | None = None) -> list[DatasetFacts]:
    """What is known about all data sets.

    Args:
        root: folder that holds the data sets.
    """
    return [dataset_facts(name, root=root) for name in DATASETS]


def graph_facts(name: str, *, root: Path | None = None) -> dict[str, Any]:
    """What a data set that is there looks like: degrees, classes, features and noise.

    Args:
        name: of the data set.
        root: folder that holds the data sets.
    """
    graph = load(name, root=root)
    mean = float(graph.x.mean(dtype=torch.float64))
    return {
        "degree": _degrees(graph),
        "classes_of_nodes": _classes(graph),
        "mean_feature": mean,
        "nonzero_features": float((graph.x != 0).double().mean()),
        "noise": [
            {"percent": level, "variance": level / 100 * mean, "std": (level / 100 * mean) ** 0.5}
            for level in LEVELS
        ],
    }


def _degrees(graph: Data) -> dict[str, float]:
    found = degree(graph.edge_index[1], graph.num_nodes).double()
    quarters = found.quantile(torch.tensor([0.25, 0.5, 0.75], dtype=torch.float64))
    return {
        "min": float(found.min()),
        "lower_quartile": float(quarters[0]),
        "median": float(quarters[1]),
        "mean": float(found.mean()),
        "upper_quartile": float(quarters[2]),
        "max": float(found.max()),
        "without_links": int((found == 0).sum()),
    }


def _classes(graph: Data) -> list[dict[str, Any]]:
    counts = torch.bincount(graph.y).tolist()
    names = graph.get("class_names") or [str(label) for label in range(len(counts))]
    total = sum(counts)
    return [
        {"class": label, "name": name, "nodes": count, "share": count / total}
        for label, (name, count) in enumerate(zip(names, counts, strict=True))
    ]


def _looked_in(root: Path | None) -> tuple[str, ...]:
    named = root or os.environ.get(VARIABLE)
    first = (str(Path(named).expanduser().absolute()),) if named else ()
    return (*first, str(cache_folder()))


def _place(key: str, root: Path | None) -> tuple[bool, str]:
    try:
        raw = raw_folder(DATA_SETS[key], root=root)
    except DatasetError as error:
        if not Path(_looked_in(root)[0]).is_dir():
            raise  # the root itself is a mistake
        return False, error.problem
    if raw is None:
        return False, f"no {DATA_SETS[key].folder}/raw in these folders"
    return True, str(raw)
