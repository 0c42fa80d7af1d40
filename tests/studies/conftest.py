import pytest
import torch
from torch_geometric.data import Data

from links.scorers import Neighbourly, two_cliques
from varigraph.links import methods


@pytest.fixture
def graph():
    """Two groups of 40 nodes; links stay within a group and features point to it."""
    draw = torch.Generator().manual_seed(3)
    y = torch.arange(80) % 2
    links = torch.randint(40, (2, 300), generator=draw) * 2 + torch.arange(300) % 2
    x = torch.randn(80, 6, generator=draw) + y[:, None]
    part = torch.arange(80) % 5
    return Data(
        x=x,
        edge_index=links,
        y=y,
        train_mask=part < 3,
        val_mask=part == 3,
        test_mask=part == 4,
    )


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
