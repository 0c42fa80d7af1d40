"""``vg.link_probabilities``: how likely each link is, by models that have not seen it."""

from __future__ import annotations

import copy
import math
from dataclasses import dataclass, field
from functools import partial
from os import PathLike
from pathlib import Path
from typing import Literal, get_args

import torch
from torch import Tensor
from torch_geometric.data import Data

from varigraph.data import check_one_kind
from varigraph.data.graph_parts import links as checked_links
from varigraph.errors import GraphError
from varigraph.files import locked
from varigraph.links.crossfit import FoldFiles, Progress, crossfit, fold_settings
from varigraph.links.folds import divided
from varigraph.links.link_pairs import LinkPairs, link_pairs
from varigraph.links.methods import RECIPES, Method, chosen
from varigraph.metrics import auroc, average_precision, binary_brier, binary_ece, log_loss
from varigraph.options import one_of, seed_of, whole

Odds = Literal["balanced", "density"]


def link_probabilities(
    graph: Data,
    *,
    method: Method = "auto",
    folds: int = 5,
    odds: Odds = "balanced",
    seed: int = 0,
    folder: str | PathLike[str] | None = None,
    progress: Progress | None = None,
) -> Data:
    r"""A copy of the graph with ``edge_prob``, the probability of each of its links.

    The links are divided into ``folds``. Those of one fold are judged by a model that has seen
    them neither as examples nor as links over which messages travel, and that was calibrated on
    further pairs which it has not seen either. Both directions of a link get the same number.

    At balanced odds, ``edge_prob`` is the chance that a pair with this score is a link if links
    and non-links are equally frequent:

    .. math:: p = \frac{f(s \mid \text{link})}{f(s \mid \text{link}) + f(s \mid \text{no link})}

    At the odds of the graph's own density :math:`\rho`, links over possible pairs, it is the
    chance for a pair drawn at random, :math:`\operatorname{logit} p + \log\frac{\rho}{1 - \rho}`
    on the logit scale; in a sparse graph that is small for almost every link.

    Args:
        graph: with ``edge_index``, and features ``x`` or at least ``num_nodes``. Directions do
            not count: a link may be listed in one or in both. It stays as it is.
        method: ``seal`` judges a pair by the subgraph around it; ``hadamard``, the fast one, by
            the product of its ends' vectors; ``auto`` takes ``seal`` up to 20,000 links.
        folds: models to train, at least 2. More folds leave each more to learn from.
        odds: ``balanced`` or ``density``, as above.
        seed: of folds, non-links and training: the same seed, the same answer.
        folder: where finished folds are kept. A second call with the same settings takes them
            from there; one with others is refused. ``odds`` may differ. One call at a time works
            in a folder.
        progress: called with the fraction done, from 0 to 1, and what is being done.

    Returns:
        A copy that shares everything with the graph. Added are ``edge_prob`` ``[edges]``, float32
        and above 0 (1 for links of a node to itself: these are no question of two nodes), and
        ``link_quality``, a :class:`~varigraph.links.LinkQuality`.

    Raises:
        GraphError: if the graph cannot be right, or has too few links or non-links.
        ModelError: if the training gives no numbers.
        OptionError: if an option makes no sense, or the folder belongs to other settings or is in
            use.
        FileError: if a fold cannot be written.

    Example:
        >>> ring = torch.arange(60)
        >>> near = [torch.stack([ring, (ring + step) % 60]) for step in (1, 2, 3)]
        >>> graph = Data(edge_index=torch.cat(near, dim=1), num_nodes=60)
        >>> likely = link_probabilities(graph, method="hadamard", folds=2)
        >>> likely.edge_prob.shape, likely.link_quality.auc > 0.7
        (torch.Size([180]), True)
    """
    one_of("method", method, get_args(Method))
    one_of("odds", odds, get_args(Odds))
    folds = whole("folds", folds, least=2, remedy="choose a whole number from 2 up: folds=5")
    seed = seed_of(seed)
    x, edge_index, nodes = _looked_at(graph)
    links = link_pairs(edge_index, nodes=nodes)
    name = chosen(method, links=len(links))
    recipe = RECIPES[name]
    parts = divided(links, folds=folds, contrast=recipe.contrast, seed=seed)
    judge = partial(crossfit, parts, partial(recipe.scorer, nodes=nodes, x=x), progress=progress)
    if folder is None:
        result = judge()
    else:
        settings = fold_settings(links, x, method=name, folds=folds, seed=seed)
        with locked(Path(folder)):
            result = judge(files=FoldFiles(folder, settings))
    likely = copy.copy(graph)
    likely.edge_prob = _per_edge(result.links, links, odds)
    likely.link_quality = LinkQuality(
        result.links, result.others, method=name, calibration=result.calibration, odds=odds
    )
    return likely


def _per_edge(prob: Tensor, links: LinkPairs, odds: Odds) -> Tensor:  # [links] -> [edges]
    if odds == "density":
        density = len(links) / links.possible
        prob = torch.sigmoid(prob.logit() + math.log(density / (1 - density)))
    certain = prob.new_ones(1)  # self links have the number -1, the last place
    return torch.cat([prob, certain])[links.link_of_edge].float()


def _looked_at(graph: Data) -> tuple[Tensor | None, Tensor, int]:
    """Features, if there are any, edges and the number of nodes, all known to be right."""
    x: Tensor | None = getattr(graph, "x", None)
    whole = graph
    if isinstance(graph, Data) and x is None and "num_nodes" in graph:
        device = getattr(graph.edge_index, "device", None)
        whole = Data(x=torch.ones(graph.num_nodes, 1, device=device), edge_index=graph.edge_index)
    check_one_kind(whole)
    edge_index = checked_links(whole)
    if edge_index is None:
        raise GraphError(
            "the links are given as adj_t, and edge_prob goes with the columns of edge_index",
            "graph.edge_index = torch.stack(torch_geometric.utils.to_edge_index(graph.adj_t)[0])",
        )
    return None if x is None else x.detach(), edge_index, whole.num_nodes


@dataclass(frozen=True, eq=False)
class LinkQuality:
    """How well the probabilities tell links from as many non-links, none of which was learnt from.

    Whatever ``odds`` were asked for, quality is measured at balanced ones, since it takes equal
    numbers of both kinds.

    Args:
        links: probability of each undirected link at balanced odds, ``[links]``.
        non_links: that of as many pairs without a link, ``[links]``.
        method: which scorer judged them.
        calibration: how the scores of each fold became probabilities, ``scaled`` or ``isotonic``.
        odds: those of ``edge_prob``, ``balanced`` or ``density``.

    Example:
        >>> quality = LinkQuality(torch.tensor([0.9, 0.8]), torch.tensor([0.2, 0.1]),
        ...     method="hadamard", calibration=("scaled", "scaled"), odds="balanced")
        >>> print(quality)
        hadamard, 2 folds, balanced odds, scaled 2 times: AUC 1.000, average precision 1.000, Brier
        score 0.025, ECE 0.150, log loss 0.164
    """

    links: Tensor
    non_links: Tensor
    method: str
    calibration: tuple[str, ...]
    odds: str
    auc: float = field(init=False)
    average_precision: float = field(init=False)
    brier: float = field(init=False)
    ece: float = field(init=False)
    log_loss: float = field(init=False)

    def __post_init__(self) -> None:
        prob = torch.cat([self.links, self.non_links])
        real = torch.arange(len(prob), device=prob.device) < len(self.links)
        measures = {
            "auc": auroc,
            "average_precision": average_precision,
            "brier": binary_brier,
            "ece": binary_ece,
            "log_loss": log_loss,
        }
        for name, measure in measures.items():
            object.__setattr__(self, name, measure(prob, real))

    @property
    def folds(self) -> int:
        """How many models shared the work."""
        return len(self.calibration)

    def __str__(self) -> str:
        kinds = sorted(set(self.calibration))
        ways = ", ".join(f"{kind} {self.calibration.count(kind)} times" for kind in kinds)
        return (
            f"{self.method}, {self.folds} folds, {self.odds} odds, {ways}: "
            f"AUC {self.auc:.3f}, average precision {self.average_precision:.3f}, "
            f"Brier score {self.brier:.3f}, ECE {self.ece:.3f}, log loss {self.log_loss:.3f}"
        )
