"""Graphs, noise on their features, and the checks that come before any work."""

from varigraph.data.data_sets import UncheckedDataWarning
from varigraph.data.graph_parts import check_one_kind, feature_variance
from varigraph.data.graphs import add_noise, load
from varigraph.data.kinds import check_graph
from varigraph.data.link_files import read_links
from varigraph.data.link_tables import DroppedLinksWarning, Reading
from varigraph.data.node_tables import read_tables

__all__ = [
    "DroppedLinksWarning",
    "Reading",
    "UncheckedDataWarning",
    "add_noise",
    "check_graph",
    "check_one_kind",
    "feature_variance",
    "load",
    "read_links",
    "read_tables",
]
