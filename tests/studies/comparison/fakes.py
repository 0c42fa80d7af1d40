"""Methods that need no training, and leave a line for every time that they are fitted."""

import time
from dataclasses import dataclass

import torch

from varigraph.baselines.plain import from_draws
from varigraph.errors import ModelError
from varigraph.studies.comparison.methods import Method


@dataclass(frozen=True)
class Projection:
    """Logits by random weights: something that features, noise and draws change."""

    weight: torch.Tensor

    def predict(self, graph, *, samples=100, seed=0):
        draw = torch.Generator().manual_seed(seed)
        logits = graph.x @ self.weight
        noise = (torch.randn(logits.shape, generator=draw) for _ in range(samples))
        return from_draws((logits + 0.1 * each for each in noise), method="fake")


def log_of(folder):
    """The file in which fits are counted."""
    return folder.parent / f"{folder.name}-fits.txt"


def fits(folder):
    return log_of(folder).read_text().split() if log_of(folder).exists() else []


def _fitted(bench, scale):
    with log_of(bench.options.folder).open("a") as log:
        log.write(f"{bench.dataset}-{bench.seed}-{scale}\n")
    draw = torch.Generator().manual_seed(bench.seed)
    classes = int(bench.graph.y.max()) + 1
    return Projection(scale * torch.randn(bench.graph.num_features, classes, generator=draw))


def mild(bench, noise):
    return _fitted(bench, 1)


def bold(bench, noise):
    return _fitted(bench, 10)


def knowing(bench, noise):
    return _fitted(bench, 10 + noise)


def slow(bench, noise):
    time.sleep(0.5)
    return _fitted(bench, 3)


def stopping(bench, noise):
    """Stops the study as Ctrl-C does, once."""
    mark = bench.options.folder.parent / "stopped"
    if not mark.exists():
        mark.touch()
        raise KeyboardInterrupt
    return _fitted(bench, 5)


def mistaken(bench, noise):
    raise ModelError("the model is a fake", "take a real one")


MILD = Method("mc-dropout", mild, "fake")
BOLD = Method("first-order", bold, "fake")
KNOWING = Method("noise-aware", knowing, "fake", per_level=True)
PAPERS = Method("bgnn", bold, "fake", protocol="paper")
SLOW = Method("slow", slow, "fake")
STOPPING = Method("stopping", stopping, "fake")
MISTAKEN = Method("mistaken", mistaken, "fake")
METHODS = (MILD, BOLD, PAPERS)
