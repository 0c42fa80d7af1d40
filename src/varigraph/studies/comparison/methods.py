"""The methods that are compared: what each is called, and how it is trained on a bench."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

import torch
from torch import nn
from torch_geometric.data import Data

from varigraph.baselines.bgcn import Bgcn
from varigraph.baselines.block_bgcn import BlockBgcn
from varigraph.baselines.drop_connect import DropConnect
from varigraph.baselines.plain import Baseline, DeepEnsemble, McDropout, Plain
from varigraph.choices import Method as HowToPredict
from varigraph.choices import Reading
from varigraph.prediction import Prediction, predict
from varigraph.prediction.sources.features import FEATURES
from varigraph.prediction.sources.source import all_parts
from varigraph.prediction.sources.weights import WEIGHTS
from varigraph.studies.comparison.pieces import Bench, trained_network
from varigraph.studies.comparison.protocols import CHOSEN, Protocol
from varigraph.training import paper_network

#: Trains a method on a bench for a level of noise, in per cent of the mean feature.
Fit = Callable[[Bench, float], Baseline]
ALL = ("cora", "computers", "pubmed")
#: Seeds of methods that take long on large graphs.
FEWER = {"computers": 2, "pubmed": 3}
_DRAWN = "; on Computers by draws"


@dataclass(frozen=True)
class Method:
    """A method under comparison.

    Args:
        name: in folders, files and tables.
        fit: trains it. It is a module's function, so that other processes find it.
        about: what it is, in a few words.
        protocol: under which it is run.
        datasets: on which it is run.
        shares_network: whether it builds on the one trained network that others build on.
        per_level: whether it is trained anew for each level of noise.
        most_seeds: how many seeds it gets on data sets where it is slow.
        made_by: tells one text of a method from another, where it may change between two calls.
    """

    name: str
    fit: Fit
    about: str
    protocol: Protocol = "held-out"
    datasets: tuple[str, ...] = ALL
    shares_network: bool = False
    per_level: bool = False
    most_seeds: Mapping[str, int] = field(default_factory=dict)
    made_by: str = ""

    def seeds(self, dataset: str, wanted: int) -> range:
        """The seeds that it gets on a data set.

        Args:
            dataset: name of the data set.
            wanted: how many were asked for.
        """
        return range(min(wanted, self.most_seeds.get(dataset, wanted)))


def plain(bench: Bench, noise: float) -> Baseline:
    """The softmax of the shared network."""
    return Plain(trained_network(bench))


def mc_dropout(bench: Bench, noise: float) -> Baseline:
    """Dropout masks on the shared network."""
    return McDropout(trained_network(bench))


def bgnn(bench: Bench, noise: float) -> Baseline:
    """The paper's closed form on the shared network, all variances on one scale."""
    return ClosedForm(trained_network(bench), method="diagonal", links="weight")


def authors_bgnn(bench: Bench, noise: float) -> Baseline:
    """The same with the variances that the paper's tables print."""
    return MixedScales(trained_network(bench))


def first_order(bench: Bench, noise: float) -> Baseline:
    """Ours on the shared network."""
    return ClosedForm(trained_network(bench), method=_affordable(bench))


def noise_aware(bench: Bench, noise: float) -> Baseline:
    """Ours on a network that was trained knowing how noisy its features will be."""
    method: HowToPredict = "first-order" if bench.dataset == "cora" else "sampled"
    return OwnMean(ClosedForm(_chosen(bench, noise), method=method, certain_links=True))


def noise_blind(bench: Bench, noise: float) -> Baseline:
    """Dropout masks on the same network, trained as if the features were clean."""
    return ClosedForm(_chosen(bench, 0.0), method="sampled", sources=(WEIGHTS,), certain_links=True)


def _chosen(bench: Bench, noise: float) -> nn.Module:
    graph = certain(bench.knowing(noise))
    epochs = 60 if bench.options.quick else None
    return CHOSEN[bench.dataset].trained(graph, seed=bench.seed, epochs=epochs)


def _affordable(bench: Bench) -> HowToPredict:
    """First-order; Computers has too many walks for it, so draws take over."""
    return "sampled" if bench.dataset == "computers" else "first-order"


def ensemble(bench: Bench, noise: float) -> Baseline:
    """Five of the paper's networks, each trained by itself."""
    return DeepEnsemble.fit(
        lambda seed: paper_network(bench.graph, seed=seed),
        bench.graph,
        members=5,
        seed=bench.seed,
        **bench.recipe.options,
    )


def drop_connect(bench: Bench, noise: float) -> Baseline:
    """Links dropped as often as was learned."""
    epochs = {"epochs": 10} if bench.options.quick else {}
    size = {} if bench.dataset == "cora" else {"layers": 2, "hidden": 64}
    return DropConnect.fit(bench.graph, seed=bench.seed, **epochs, **size)


def bgcn_map(bench: Bench, noise: float) -> Baseline:
    """A GCN on a graph that was learned."""
    epochs = 30 if bench.options.quick else 300
    return Bgcn.fit(bench.graph, epochs=epochs, seed=bench.seed)


def bgcn_block(bench: Bench, noise: float) -> Baseline:
    """A GCN over graphs of a block model."""
    quick = {"epochs": 40, "observed_epochs": 30, "kept": 10} if bench.options.quick else {}
    return BlockBgcn.fit(bench.graph, seed=bench.seed, **quick)


#: In the order of the tables. A new method is a line here and a function above.
METHODS: tuple[Method, ...] = (
    Method("plain", plain, "the softmax of the paper's network", shares_network=True),
    Method("mc-dropout", mc_dropout, "dropout masks on that network", shares_network=True),
    Method("ensemble", ensemble, "five such networks", most_seeds=FEWER),
    Method(
        "drop-connect",
        drop_connect,
        "a network that learns how often to drop links",
        most_seeds=FEWER,
    ),
    Method("bgcn-map", bgcn_map, "Bayesian GCN on a learned graph", most_seeds=FEWER),
    Method(
        "bgcn-block",
        bgcn_block,
        "Bayesian GCN over graphs of a block model",
        most_seeds=FEWER,
    ),
    Method("bgnn", bgnn, "the paper's closed form on that network", shares_network=True),
    Method("first-order", first_order, f"ours on that network{_DRAWN}", shares_network=True),
    Method(
        "noise-blind",
        noise_blind,
        "dropout masks on the network of noise-aware, trained clean",
        most_seeds=FEWER,
    ),
    Method(
        "noise-aware",
        noise_aware,
        "ours, knowing the noise; on large graphs by draws",
        per_level=True,
    ),
    Method(
        "bgcn-map",
        bgcn_map,
        "Bayesian GCN on a learned graph",
        protocol="paper",
        datasets=("cora",),
    ),
    Method(
        "bgnn",
        authors_bgnn,
        "the paper's closed form",
        protocol="paper",
        shares_network=True,
        most_seeds=FEWER,
    ),
)


@dataclass(frozen=True, eq=False)
class ClosedForm:
    """:func:`varigraph.predict` by a method, with noise, links and dropout considered.

    Args:
        model: a trained network.
        method: how to predict.
        links: how the probability of a link is read.
        sources: what to consider; None for all of them.
        certain_links: whether all links count as certain, whatever the graph says.
    """

    model: nn.Module
    method: HowToPredict
    links: Reading = "bernoulli"
    sources: tuple[str, ...] | None = None
    certain_links: bool = False

    def predict(self, graph: Data, *, samples: int = 100, seed: int = 0) -> Prediction:
        """Mean and variance of the class probabilities of every node."""
        return predict(
            self.model,
            certain(graph) if self.certain_links else graph,
            method=self.method,
            links=self.links,
            sources=self.sources,
            samples=samples,
            seed=seed,
        )


def certain(graph: Data) -> Data:
    """The graph with all its links certain.

    Args:
        graph: stays as it is.
    """
    sure = copy.copy(graph)
    if "edge_prob" in sure:
        del sure.edge_prob
    return sure


@dataclass(frozen=True, eq=False)
class OwnMean:
    """Error bars of a closed form around the network's own softmax.

    A network that was trained with noise and dropout has learned to average over them: a second
    average, as :func:`varigraph.predict` takes it, would make it less sure than it should be.

    Args:
        closed_form: gives the variances, and has the network.
    """

    closed_form: ClosedForm

    def predict(self, graph: Data, *, samples: int = 100, seed: int = 0) -> Prediction:
        """The softmax at the features as they are seen, with the variances of the closed form."""
        bars = self.closed_form.predict(graph, samples=samples, seed=seed)
        plain = Plain(self.closed_form.model).predict(
            certain(graph) if self.closed_form.certain_links else graph
        )
        return replace(bars, mean=plain.mean, std_error=None)


@dataclass(frozen=True, eq=False)
class MixedScales:
    r"""What the paper's tables call output variance: two scales in one sum.

    .. math:: v = V_\text{noise, links}[\text{logits}] + V_\text{masks}[\text{class probabilities}]

    The mean is that over dropout masks, as if the features were what they seem.

    Args:
        model: a trained network.
    """

    model: nn.Module

    def predict(self, graph: Data, *, samples: int = 100, seed: int = 0) -> Prediction:
        """The mean over masks; features stand for everything that is not due to the weights."""
        masks = predict(
            self.model,
            graph,
            method="diagonal",
            links="weight",
            sources=(WEIGHTS,),
            samples=samples,
            seed=seed,
        )
        noise = predict(self.model, graph, method="diagonal", links="weight", samples=0)
        none = torch.zeros_like(masks.epistemic)
        parts = {FEATURES: noise.logits.var, WEIGHTS: masks.epistemic}
        return replace(
            masks,
            by_source={part: parts.get(part, none) for part in all_parts()},
            method="diagonal, two scales",
        )
