"""Networks to train, and a training that can know the noise."""

from varigraph.training.networks import PaperNetwork, paper_network
from varigraph.training.train import History, train

__all__ = ["History", "PaperNetwork", "paper_network", "train"]
