import pytest

from studies.comparison import fakes
from studies.comparison.tiny_computers import write_computers
from varigraph.studies.comparison import paper_study

#: Certain links need no training.
FAST = {"links": None, "samples": 3, "seeds": 2}


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    """A folder that holds a small Computers; the cache of this module alone."""
    folder = tmp_path_factory.mktemp("data")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(folder / "cache"))
        patch.setenv("VARIGRAPH_UNCHECKED", "computers")
        yield write_computers(folder / "root")


@pytest.fixture
def study(tmp_path, root):
    """A study of fakes in a folder of its own; the same folder at every call."""

    def run(*tables, folder=tmp_path / "study", methods=fakes.METHODS, **options):
        chosen = {**FAST, "root": root, **options}
        return paper_study(tables or (5,), out=folder, methods=methods, **chosen)

    return run


@pytest.fixture(scope="module")
def whole(tmp_path_factory, root):
    """A study that was never stopped."""
    folder = tmp_path_factory.mktemp("whole") / "study"
    return paper_study((5,), out=folder, methods=fakes.METHODS, root=root, **FAST)


@pytest.fixture(scope="session")
def numbers():
    """All numbers of an outcome but for the seconds."""

    def of(outcome):
        return sorted(r for r in outcome.results.rows() if not r.metric.endswith("seconds"))

    return of
