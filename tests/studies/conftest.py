import pytest

from links.scorers import Neighbourly, two_cliques
from varigraph.links import methods


@pytest.fixture
def counted(monkeypatch):
    """Methods that need no training; the list of all models that were made."""
    recipe = methods.Recipe("links.scorers", "Neighbourly", contrast=1)
    for name in list(methods.RECIPES):
        monkeypatch.setitem(methods.RECIPES, name, recipe)
    monkeypatch.setattr(Neighbourly, "made", [])
    return Neighbourly.made


@pytest.fixture
def link_file(tmp_path):
    """Two cliques of eight proteins, one link a line."""
    path = tmp_path / "cliques.txt"
    ends = two_cliques(8)[:, :56].t().tolist()
    path.write_text("".join(f"P{u} P{v}\n" for u, v in ends))
    return path
