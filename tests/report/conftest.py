import pytest

from varigraph.quantify import Level, Published, Scores


@pytest.fixture
def levels():
    """With and without noise, variance and published figures."""
    return (
        Level(0.0, Scores(0.85, 0.5, None, 0.0, 0.0, 0.0), Published(0.9796, 0.19, None, None)),
        Level(
            12.0,
            Scores(0.74, 0.9, 1234.5, 0.02, 0.0196, 0.0004),
            Published(0.6122, 1.64, -0.23, 0.57),
        ),
        Level(20.0, Scores(0.7, 1.1, -0.5, 0.03, 0.01, 0.02)),
    )
