import pytest
from typer.testing import CliRunner

from links.scorers import two_cliques
from varigraph.cli import app
from varigraph.links import methods


@pytest.fixture
def quick(monkeypatch):
    """Hadamard with few steps of training, also where seal is asked for."""
    recipe = methods.Recipe("links.scorers", "Quick", contrast=2)
    for name in list(methods.RECIPES):
        monkeypatch.setitem(methods.RECIPES, name, recipe)


@pytest.fixture
def link_file(tmp_path):
    """Two cliques of eight proteins, one link a line."""
    path = tmp_path / "cliques.txt"
    ends = two_cliques(8)[:, :56].t().tolist()
    path.write_text("".join(f"P{u} P{v}\n" for u, v in ends))
    return path


@pytest.fixture
def explained():
    """Runs a command that must be refused in a few words; returns what it said."""

    def refused(*arguments):
        result = CliRunner().invoke(app, list(map(str, arguments)))
        assert result.exit_code == 2
        assert result.stdout == ""
        assert "\nerror: " in f"\n{result.stderr}"  # after what users print, and progress
        assert "remedy: " in result.stderr
        assert "Traceback" not in result.output
        return result.stderr

    return refused
