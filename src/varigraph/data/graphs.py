"""Graphs by name, ready for training: features, links, labels and a seeded split.

Noise on the features: adding it, and reading how much a graph says it has.
"""

from __future__ import annotations

import copy
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from importlib.resources import files
from pathlib import Path
from reprlib import repr as shortened

import numpy as np
import torch
from torch import Tensor
from torch_geometric.data import Data
from torch_geometric.utils import to_undirected

from varigraph.choices import DATASETS
from varigraph.data.data_sets import DATA_SETS, read
from varigraph.data.graph_parts import feature_variance, finite_features
from varigraph.errors import DatasetError, GraphError, OptionError
from varigraph.options import number, path_of, seed_of

CORA_ORIGIN = "PyPI package graphdatascience 2.2, graphdatascience/resources/cora"
CORA_LICENSE = "Apache-2.0"
CORA_SHA256 = "413890e3c2494f7cd97fde4ce409918efab3e77052ae2928259c3ef37a3f0b63"
CORA_CLASSES = (
    "Theory",
    "Reinforcement_Learning",
    "Genetic_Algorithms",
    "Neural_Networks",
    "Probabilistic_Methods",
    "Case_Based",
    "Rule_Learning",
)


def load(name: str, *, root: str | Path | None = None, seed: int = 0) -> Data:
    r"""A graph with ``x``, ``edge_index``, ``y``, ``train_mask``, ``val_mask`` and ``test_mask``.

    Features of Cora, CiteSeer and PubMed are scaled per node to

    .. math::
        x_{nf} \leftarrow x_{nf} \Big/ \sum_g x_{ng}

    (a node without words keeps its zeros); those of Computers and Photo stay 0 or 1. Every link
    is listed once in each direction, sorted. Cora comes with ``class_names``.

    Args:
        name: one of :data:`DATASETS`, in any case. Cora is part of this package; the others are
            read from disk and, where they are missing, downloaded into the cache folder
            (``$XDG_CACHE_HOME/varigraph``, else ``~/.cache/varigraph``).
        root: the folder that holds ``PubMed/raw``, ``Computers/raw`` and so on; else
            ``$VARIGRAPH_DATA``, else the cache folder. It is only read, never written.
        seed: of the random split into 70 % training, 10 % validation and 20 % test nodes.

    Raises:
        DatasetError: if the name is unknown, or its files are missing or unreadable.
        OptionError: an option has a value that makes no sense.

    Example:
        >>> graph = load("cora")
        >>> graph.num_nodes, graph.num_edges, graph.num_features, len(graph.class_names)
        (2708, 10556, 1433, 7)
        >>> int(graph.train_mask.sum()), int(graph.val_mask.sum()), int(graph.test_mask.sum())
        (1895, 270, 543)
    """
    key = _known(name)
    if root is not None:
        path_of("root", root, remedy='root="folder", the one that holds PubMed/raw and so on')
    stored = cora() if key == "cora" else read(DATA_SETS[key], root=root)
    normalise = key == "cora" or DATA_SETS[key].row_normalised
    split = random_split(stored.num_nodes, seed=seed)
    graph = Data(
        x=_row_normalised(stored.x) if normalise else stored.x,
        edge_index=to_undirected(stored.edge_index, num_nodes=stored.num_nodes),
        y=stored.y,
        train_mask=split.train,
        val_mask=split.val,
        test_mask=split.test,
    )
    if "class_names" in stored:
        graph.class_names = stored.class_names
    return graph


def _known(name: str) -> str:
    key = str(name).lower()
    if key in DATASETS:
        return key
    nearest = get_close_matches(key, DATASETS, n=1)
    raise DatasetError(
        f"no data set is called {name!r}; known are {', '.join(DATASETS)}",
        f"load({nearest[0]!r})" if nearest else f"load one of these, such as load({DATASETS[0]!r})",
    )


def _row_normalised(x: Tensor) -> Tensor:  # [nodes, features] -> [nodes, features]
    # torch_geometric's NormalizeFeatures leaves rows whose sum is below 1 as they are.
    total = x.sum(dim=1, keepdim=True)
    return x / total.where(total > 0, 1)


@dataclass(frozen=True, eq=False)
class Split:
    """Three masks that cover every node exactly once.

    Args:
        train: nodes to fit on.
        val: nodes to choose options on.
        test: nodes to report on.
    """

    train: Tensor  # [nodes] bool
    val: Tensor  # [nodes] bool
    test: Tensor  # [nodes] bool


def random_split(nodes: int, *, seed: int = 0) -> Split:
    """70 % of the nodes for training, 10 % for validation, the rest for testing, at random.

    Shares are rounded down, so the test part gets what is left over. The draw has a generator of
    its own: the global random state stays as it was.

    Args:
        nodes: how many nodes there are.
        seed: the same seed gives the same split.

    Raises:
        OptionError: if there are no nodes to split.

    Example:
        >>> split = random_split(10, seed=1)
        >>> [int(mask.sum()) for mask in (split.train, split.val, split.test)]
        [7, 1, 2]
    """
    if nodes < 1:
        raise OptionError(f"cannot split {nodes} nodes", "give a graph that has nodes")
    place = torch.randperm(nodes, generator=torch.Generator().manual_seed(seed))  # [nodes]
    train, val = nodes * 70 // 100, nodes * 10 // 100
    return Split(
        train=place < train,
        val=(place >= train) & (place < train + val),
        test=place >= train + val,
    )


def cora() -> Data:
    """Cora, shipped with the package: 2,708 papers, 5,278 citation links, 1,433 words, 7 topics.

    Words are 0 or 1, links go in both directions. ``scripts/build_cora.py`` built the file; origin
    and licence stand in ``docs/data.md``.
    """
    with (
        (files(__package__) / "cora.npz").open("rb") as stream,
        np.load(stream, allow_pickle=False) as stored,
    ):
        content = {name: torch.from_numpy(stored[name].astype(np.int64)) for name in stored.files}
    nodes, start = content["labels"].numel(), content["word_start"]
    x = torch.zeros(nodes, int(content["word_count"]))
    x[torch.arange(nodes).repeat_interleave(start.diff()), content["words"]] = 1
    graph = Data(
        x=x, edge_index=to_undirected(content["links"], num_nodes=nodes), y=content["labels"]
    )
    graph.class_names = list(CORA_CLASSES)
    return graph


def add_noise(graph: Data, *, percent: float, seed: int = 0) -> Data:
    r"""A copy whose features are seen through noise, drawn once.

    .. math::
        x'_{nf} = x_{nf} + \varepsilon_{nf}, \qquad
        \varepsilon_{nf} \sim \mathcal{N}(0, \sigma^2), \qquad
        \sigma^2 = \tfrac{\mathrm{percent}}{100} \, \operatorname{mean}(x)

    The copy carries :math:`\sigma^2` as ``x_var``; everything but ``x`` is shared with the graph.

    Args:
        graph: with clean features ``x``. It stays as it is.
        percent: noise variance in percent of the mean feature value over all nodes.
        seed: of the draw; the global random state stays as it was.

    Raises:
        OptionError: if the percentage is negative, NaN or infinite.
        GraphError: if the mean feature value is not positive, or the features are noisy already.

    Example:
        >>> from varigraph.data import load
        >>> noisy = add_noise(load("cora"), percent=12)
        >>> round(noisy.x_var.item(), 7)  # 0.12 / 1433, as every row of Cora sums to 1
        8.37e-05
    """
    remedy = "give a finite number from 0 up: percent=5"
    percent = number("percent", percent, lambda share: share >= 0, remedy=remedy)
    seed = seed_of(seed)
    x = finite_features(graph)
    _check_clean(graph)
    var = x.new_tensor(percent / 100 * _scale(x) if percent else 0.0)
    if not bool(var.isfinite()):
        raise OptionError(f"percent={percent:.4g} of the mean feature is beyond {x.dtype}", remedy)
    draw = torch.Generator().manual_seed(seed)
    # Drawn on the CPU, as the mean is taken there: the same noise on every device.
    noise = torch.randn(x.shape, generator=draw, dtype=x.dtype).to(x.device)
    noisy = copy.copy(graph)
    noisy.x, noisy.x_var = x + var.sqrt() * noise, var
    return noisy


def _scale(x: Tensor) -> float:
    mean = x.detach().cpu().mean(dtype=torch.float64).item()
    if mean <= 0:
        raise GraphError(
            f"the mean feature value is {mean:.4g}, and a percentage of it has no meaning as noise",
            "set the noise variance directly: graph.x_var = torch.tensor(0.1)",
        )
    return mean


def _check_clean(graph: Data) -> None:
    if feature_variance(graph).any():
        raise GraphError(
            "the features are noisy already (x_var is not 0); a second draw would hide the first",
            "add noise to the clean graph, once",
        )


def called(names: Sequence[str], graph: Data) -> list[int]:
    """Numbers of the nodes that have these names.

    Args:
        names: as in ``graph.node_names``.
        graph: that has them.

    Raises:
        OptionError: naming the first that is no node's name, or that of more than one.
    """
    known = graph.get("node_names")
    if known is None:
        raise OptionError(
            f"the graph has no node_names to find {shortened(names[0])} in",
            "give numbers from 0, or graph.node_names = [...]",
        )
    known = list(known)
    place, times = {name: number for number, name in enumerate(known)}, Counter(known)
    for name in names:
        if times[name] != 1:
            nodes = "no node" if name not in place else "more than one node"
            raise OptionError(
                f"{nodes} is called {shortened(name)}",
                f"node_names has names such as {', '.join(map(shortened, known[:3]))}",
            )
    return [place[name] for name in names]
