import pytest
import torch

from links.scorers import random_graph
from varigraph.links.crossfit import fold_settings
from varigraph.links.link_pairs import link_pairs

EDGES = random_graph(20, 30)
X = torch.rand(20, 3, generator=torch.Generator().manual_seed(0))


def settings(edges=EDGES, *, x=X, nodes=20, method="seal", folds=3, seed=1):
    links = link_pairs(edges, nodes=nodes)
    return fold_settings(links, x, method=method, folds=folds, seed=seed)


@pytest.mark.parametrize(
    "edges", [EDGES, EDGES[:, :30], EDGES.flip(1), EDGES.flip(0), EDGES.repeat(1, 2)]
)
def test_the_same_links_are_the_same_settings_however_listed(edges):
    assert settings(edges) == settings()


@pytest.mark.parametrize(
    ("change", "differs"),
    [
        ({"edges": random_graph(20, 30, seed=1)}, "links"),
        ({"edges": random_graph(20, 29)}, "links"),
        ({"x": X + 1e-6}, "features"),
        ({"x": X.double()}, "features"),
        ({"x": X.bfloat16()}, "features"),
        ({"x": X.flatten()[:, None][:20]}, "features"),
        ({"x": None}, "features"),
        ({"nodes": 21}, "nodes"),
        ({"method": "hadamard"}, "method"),
        ({"folds": 4}, "folds"),
        ({"seed": 2}, "seed"),
    ],
)
def test_whatever_can_change_a_number_is_noticed(change, differs):
    one, two = settings(), settings(**change)
    assert one.keys() == two.keys()
    assert [name for name in one if one[name] != two[name]] == [differs]
