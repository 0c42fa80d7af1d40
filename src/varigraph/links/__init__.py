"""How likely each link of a graph is, judged from the rest of the graph."""

from varigraph.links.link_probabilities import link_probabilities
from varigraph.links.link_quality import LinkQuality

__all__ = ["LinkQuality", "link_probabilities"]
