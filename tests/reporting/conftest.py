import pytest

from varigraph.prediction.sources.source import all_parts
from varigraph.quantify import Level, Scores
from varigraph.quantify.levels import Rung


def parts(**given):
    return dict.fromkeys(("features", "links", "weights", "interactions"), 0.0) | given


@pytest.fixture
def levels():
    """With and without noise and variance."""
    return (
        Level(0.0, Scores(0.85, 0.5, 0.0, 0.0, 0.0, parts())),
        Level(
            12.0,
            Scores(0.74, 0.9, 0.02, 0.0196, 0.0004, parts(features=0.0196, weights=0.0004)),
        ),
        Level(20.0, Scores(0.7, 1.1, 0.03, 0.01, 0.02, parts(features=0.01, weights=0.02))),
    )


@pytest.fixture
def rungs():
    """A ladder of four rungs whose links are certain; the first has no noise."""
    parts = [(level * 1e-3, 0.0, 4e-3, level * 1e-4) for level in (0.0, 1.0, 4.0, 16.0)]
    return [
        Rung(
            level=1000 * features,
            input_var=features / 3,
            accuracy=0.9 - 10 * features,
            cross_entropy=0.5 + features,
            brier=0.2,
            ece=0.05,
            total=features + links + weights + both,
            by_source=dict(zip(all_parts(), (features, links, weights, both), strict=True)),
        )
        for features, links, weights, both in parts
    ]
