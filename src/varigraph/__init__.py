"""Error bars for graph neural networks that are already trained.

The public names, in the order of the story: a graph and its noise, a network, its prediction.
"""

from __future__ import annotations

from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING

from varigraph import baselines, errors, metrics
from varigraph.data import add_noise, load, read_links
from varigraph.errors import VarigraphError
from varigraph.links import link_probabilities
from varigraph.moments import Gaussian, implements
from varigraph.prediction import Prediction, predict
from varigraph.quantify import Attribution, Audit, attribute, audit
from varigraph.reporting.page import report
from varigraph.training import paper_network, train

if TYPE_CHECKING:
    from varigraph.reporting import plots

__version__ = "0.1.0"

__all__ = [
    "Attribution",
    "Audit",
    "Gaussian",
    "Prediction",
    "VarigraphError",
    "add_noise",
    "attribute",
    "audit",
    "baselines",
    "errors",
    "implements",
    "link_probabilities",
    "load",
    "metrics",
    "paper_network",
    "plots",
    "predict",
    "read_links",
    "report",
    "train",
]


def __getattr__(name: str) -> ModuleType:
    """``plots`` comes when it is first asked for: it alone needs matplotlib."""
    if name == "plots":
        return import_module("varigraph.reporting.plots")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
