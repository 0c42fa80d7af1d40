"""The brute force of the corpus: it shares no code with the package, and draws what it should."""

import ast
from copy import deepcopy
from pathlib import Path

import pytest
import torch

from corpus import NETWORKS
from corpus.convolutions import CONVOLUTIONS
from corpus.copies import drawn_coins, drawn_features, graph_of_copies
from corpus.draws import plain_logits
from corpus.graphs import molecules, papers, shop

FOLDER = Path(__file__).parent
#: What asks the library, or compares with it.
ASKS = {"asking", "judgement", "laws", "__main__", "test_corpus"}
EVERY = {**NETWORKS, **CONVOLUTIONS}


@pytest.mark.parametrize("path", sorted(FOLDER.glob("*.py")), ids=lambda path: path.stem)
def test_nothing_of_the_package_is_imported(path):
    nodes = list(ast.walk(ast.parse(path.read_text(encoding="utf-8"))))
    names = [a.name for node in nodes if isinstance(node, ast.Import) for a in node.names]
    names += [node.module for node in nodes if isinstance(node, ast.ImportFrom)]
    assert path.stem in ASKS or not [name for name in names if name.startswith("varigraph")]


@pytest.mark.parametrize("name", [name for name, each in EVERY.items() if not each.alone])
def test_copies_side_by_side_do_not_know_of_each_other(name):
    network = EVERY[name]
    model, data = network.untrained(), network.data
    features, coins = drawn_features(data, 3, noisy=True), drawn_coins(data, 3, certain=False)

    def answers(here):
        x, union = graph_of_copies(data, features, coins, here)
        return plain_logits(network, deepcopy(model), x, union, copies=here.stop - here.start)

    together = answers(slice(0, 3))
    one_by_one = torch.cat([answers(slice(each, each + 1)) for each in range(3)])
    assert torch.allclose(together, one_by_one, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("graph", [papers, molecules])
def test_links_are_there_as_often_as_their_chances_say_and_both_ways_at_once(graph):
    data = graph()
    coins = drawn_coins(data, 4000, certain=False).popitem()[1]
    error = (data.edge_prob * (1 - data.edge_prob) / 4000).sqrt()
    assert float(((coins.float().mean(0) - data.edge_prob) / error).abs().max()) < 4
    source, target = data.edge_index
    back = (source[:, None] == target) & (target[:, None] == source)
    assert coins.equal(coins[:, back.float().argmax(1)])


def test_noise_has_the_variance_that_the_graph_says():
    drawn = drawn_features(papers(), 4000, noisy=True).popitem()[1]
    ratio = drawn.var(0).mean(1) / papers().x_var[:, 0]
    assert float((ratio - 1).abs().max()) < 4 * (2 / 4000 / 16) ** 0.5


def test_links_between_two_kinds_have_one_coin_both_ways():
    coins = drawn_coins(shop(), 50, certain=False)
    assert coins["user", "buys", "item"].equal(coins["item", "rev_buys", "user"])
    assert set(coins) == set(shop().edge_types)
