"""Records of cells that were never run."""

from varigraph.studies.config import NOISE


def made_up(method, *, seed=0, protocol="held-out", dataset="cora", nodes=(), **scores):
    """A record; a score is a number for all levels of noise, or one for each."""
    levels = [
        {
            "noise": noise,
            "scores": {
                name: value[place] if isinstance(value, (list, tuple)) else value
                for name, value in scores.items()
            },
            "nodes": list(nodes),
            "training_seconds": 1.0,
            "prediction_seconds": 2.0,
        }
        for place, noise in enumerate(NOISE)
    ]
    place = {"protocol": protocol, "dataset": dataset, "method": method, "seed": seed}
    return {**place, "levels": levels}
