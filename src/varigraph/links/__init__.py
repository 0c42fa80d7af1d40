"""How likely each link of a graph is, judged from the rest of the graph."""

from varigraph.links.link_probabilities import LinkQuality, link_probabilities

__all__ = ["LinkQuality", "link_probabilities"]
