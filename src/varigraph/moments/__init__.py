"""Rules: how mean and variance pass through one layer.

Importing this package registers all rules.
"""

from varigraph.moments import (  # noqa: F401 - imported to register their rules
    activations,
    aggregations,
    arithmetic,
    convolutions,
    graph_norms,
    layers,
    maximum,
    pieces,
    reductions,
    shapes,
    softmax,
)
from varigraph.moments.gaussian import Gaussian
from varigraph.moments.links import LinkProbabilities
from varigraph.moments.propagation import Propagation, propagating
from varigraph.moments.registry import implements
from varigraph.moments.running import running, uncovered
from varigraph.moments.stand_in import StandIn

__all__ = [
    "Gaussian",
    "LinkProbabilities",
    "Propagation",
    "StandIn",
    "implements",
    "propagating",
    "running",
    "uncovered",
]
