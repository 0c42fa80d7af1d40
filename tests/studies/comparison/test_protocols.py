import pytest
import torch

import varigraph as vg
from varigraph.studies.comparison.protocols import class_split, graph_of, with_leaked_labels


def test_a_large_class_gives_300_30_and_100_nodes():
    labels = torch.tensor([0] * 500 + [1] * 430)
    split = class_split(labels)
    for label in (0, 1):
        sizes = [int(mask[labels == label].sum()) for mask in (split.train, split.val, split.test)]
        assert sizes == [300, 30, 100]
    assert int((split.train.int() + split.val.int() + split.test.int()).max()) == 1


@pytest.mark.parametrize("nodes", [10, 57, 180, 429])
def test_a_small_class_gives_80_per_cent_and_two_halves_of_the_rest(nodes):
    split = class_split(torch.zeros(nodes, dtype=torch.long))
    train, val, test = (int(mask.sum()) for mask in (split.train, split.val, split.test))
    assert train == int(0.8 * nodes)
    assert 0 <= test - val <= 1
    assert train + val + test == nodes


def test_another_seed_gives_another_split():
    labels = torch.zeros(600, dtype=torch.long)
    assert class_split(labels, seed=1).train.equal(class_split(labels, seed=1).train)
    assert not class_split(labels, seed=1).train.equal(class_split(labels, seed=2).train)


def test_the_leak_is_one_more_word():
    clean = vg.load("cora")
    leaked = with_leaked_labels(clean)
    assert leaked.num_features == 1433 + 7
    assert (leaked.x[:, 1433:].argmax(dim=1) == clean.y).all()
    torch.testing.assert_close(leaked.x.sum(dim=1), torch.ones(2708))
    node = 5
    words = int((clean.x[node] > 0).sum())
    assert leaked.x[node].max().item() == pytest.approx(1 / (words + 1))
    assert clean.num_features == 1433


def test_held_out_is_what_load_gives_and_only_the_papers_cora_leaks(root):
    held_out = graph_of("held-out", "cora", seed=3)
    assert held_out.x.equal(vg.load("cora").x)
    assert held_out.test_mask.equal(vg.load("cora", seed=3).test_mask)
    assert graph_of("paper", "cora").num_features == 1440
    assert graph_of("paper", "computers", root=root).num_features == 8
