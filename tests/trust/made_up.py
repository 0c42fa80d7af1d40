"""Predictions that are made up, and truths drawn for them."""

import numpy as np
import torch

from varigraph.moments import Gaussian
from varigraph.prediction import Prediction
from varigraph.prediction.rows import Rows
from varigraph.prediction.sources.source import all_parts


def prediction(mean, var=None, task="classification", plain=None, **rows):
    var = torch.full_like(mean, 0.01) if var is None else var
    parts = {part: var if part == "features" else torch.zeros_like(var) for part in all_parts()}
    logits = Gaussian(mean, var)
    return Prediction(mean, parts, logits, "made up", 0, task, plain=plain, rows=Rows(**rows))


def drawn(nodes=2000, classes=4, *, temperature=0.4, seed=0):
    """Probabilities that are too flat or too sharp, and truths drawn from the right ones."""
    rng = np.random.default_rng(seed)
    logits = rng.normal(size=(nodes, classes)) * 2
    right = np.exp(logits) / np.exp(logits).sum(1, keepdims=True)
    y = (right.cumsum(1) > rng.random((nodes, 1))).argmax(1)
    said = np.exp(logits * temperature)
    return torch.from_numpy(said / said.sum(1, keepdims=True)), torch.from_numpy(y)


def links_of(y, *, rng, per_node=6, alike=0.9):
    """Links between nodes that are mostly of one class."""
    nodes = len(y)
    source = rng.integers(0, nodes, nodes * per_node)
    target = rng.integers(0, nodes, nodes * per_node)
    keep = rng.random(len(source)) < np.where(y[source] == y[target], alike, 0.05)
    ends = torch.from_numpy(np.stack([source[keep], target[keep]]))
    return torch.cat([ends, ends.flip(0)], 1)


def values(nodes=1200, *, seed=0):
    """Values with error bars that know the inputs' noise, and truths that are farther off."""
    rng = np.random.default_rng(seed)
    mean = torch.from_numpy(rng.normal(size=(nodes, 2)))
    var = torch.from_numpy(rng.gamma(2, 0.2, size=(nodes, 2)))
    y = mean + torch.from_numpy(rng.laplace(size=(nodes, 2))) * (var + 0.3).sqrt()
    return mean, var, y
