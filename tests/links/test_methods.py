import pytest
import torch

from links.scorers import random_graph
from varigraph.links.hadamard import Hadamard
from varigraph.links.link_pairs import link_pairs
from varigraph.links.methods import LARGE, RECIPES, chosen
from varigraph.links.seal import Seal


@pytest.mark.parametrize(
    ("method", "links", "name"),
    [
        ("auto", 100, "seal"),
        ("auto", LARGE, "seal"),
        ("auto", LARGE + 1, "hadamard"),
        ("hadamard", 100, "hadamard"),
        ("seal", 10 * LARGE, "seal"),
    ],
)
def test_auto_is_fast_where_the_graph_is_large(method, links, name):
    assert chosen(method, links=links) == name


@pytest.mark.parametrize(("name", "kind"), [("hadamard", Hadamard), ("seal", Seal)])
@pytest.mark.parametrize("x", [None, torch.rand(20, 3)])
def test_names_stand_for_scorers(name, kind, x):
    links = link_pairs(random_graph(20, 30), nodes=20).pairs
    assert type(RECIPES[name].scorer(links, nodes=20, x=x, seed=0)) is kind
