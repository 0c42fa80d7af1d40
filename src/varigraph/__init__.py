"""Error bars for graph neural networks that are already trained.

The public names, in the order of the story: a graph and its noise, a network, its prediction.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from varigraph import baselines, errors, metrics, rules, sources
    from varigraph.data import add_noise, load, read_links, read_tables
    from varigraph.errors import VarigraphError
    from varigraph.links import link_probabilities
    from varigraph.moments import Gaussian, implements
    from varigraph.prediction import Calibrator, Prediction, calibrate, load_prediction, predict
    from varigraph.quantify import (
        Attribution,
        Audit,
        GraphAttribution,
        Plan,
        attribute,
        audit,
        plan,
    )
    from varigraph.reporting import plots
    from varigraph.reporting.page import report
    from varigraph.training import paper_network, train

__version__ = "0.1.0"

__all__ = [
    "Attribution",
    "Audit",
    "Calibrator",
    "Gaussian",
    "GraphAttribution",
    "Plan",
    "Prediction",
    "VarigraphError",
    "add_noise",
    "attribute",
    "audit",
    "baselines",
    "calibrate",
    "errors",
    "implements",
    "link_probabilities",
    "load",
    "load_prediction",
    "metrics",
    "paper_network",
    "plan",
    "plots",
    "predict",
    "read_links",
    "read_tables",
    "report",
    "rules",
    "sources",
    "train",
]

#: The public names of each module.
_NAMES = {
    "data": ("add_noise", "load", "read_links", "read_tables"),
    "errors": ("VarigraphError",),
    "links": ("link_probabilities",),
    "moments": ("Gaussian", "implements"),
    "prediction": ("Calibrator", "Prediction", "calibrate", "load_prediction", "predict"),
    "quantify": ("Attribution", "Audit", "GraphAttribution", "Plan", "attribute", "audit", "plan"),
    "reporting.page": ("report",),
    "training": ("paper_network", "train"),
}
_HOMES = {name: home for home, names in _NAMES.items() for name in names}
#: Modules that are public as they are.
_MODULES = {
    "baselines": "baselines",
    "errors": "errors",
    "metrics": "metrics",
    "plots": "reporting.plots",
    "rules": "rules",
    "sources": "sources",
}


def __getattr__(name: str) -> Any:
    """A public name comes when it is first asked for: torch takes seconds, plots matplotlib."""
    if name in _MODULES:
        found: Any = import_module(f"varigraph.{_MODULES[name]}")
    elif name in _HOMES:
        found = getattr(import_module(f"varigraph.{_HOMES[name]}"), name)
    else:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
