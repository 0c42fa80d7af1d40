"""Step 6: the paper's network, its training and its experiment, end to end."""

from varigraph.studies.networks import PaperNetwork, paper_network
from varigraph.studies.training import History, train

__all__ = ["History", "PaperNetwork", "paper_network", "train"]
