"""Error bars for graph neural networks that are already trained.

The public names, in the order of the story: a graph and its noise, a network, its prediction.
"""

from varigraph import errors, metrics
from varigraph.data import add_noise, load, read_links
from varigraph.errors import VarigraphError
from varigraph.links import link_probabilities
from varigraph.moments import Gaussian, implements
from varigraph.prediction import Prediction, predict
from varigraph.quantify import Attribution, Audit, attribute, audit
from varigraph.training import paper_network, train

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
    "errors",
    "implements",
    "link_probabilities",
    "load",
    "metrics",
    "paper_network",
    "predict",
    "read_links",
    "train",
]
