"""Graphs, noise on their features, and the checks that come before any work."""

from varigraph.data.checks import check_graph
from varigraph.data.graphs import DATASETS, load
from varigraph.data.noise import add_noise, feature_variance

__all__ = ["DATASETS", "add_noise", "check_graph", "feature_variance", "load"]
