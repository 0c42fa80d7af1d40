import pytest
import torch
from torch.nn.functional import one_hot
from torch.testing import assert_close

from varigraph.baselines import node_distances as module
from varigraph.baselines.node_distances import (
    NodeDistances,
    candidate_pairs,
    label_shares,
    node_distances,
)
from varigraph.errors import GraphError

NODES, CLASSES = 25, 3


@pytest.fixture
def graph():
    """Random links, some nodes without any, and random labels."""
    generator = torch.Generator().manual_seed(0)
    linked = torch.rand(NODES, NODES, generator=generator) < 0.08
    linked[:3] = linked[:, :3] = False
    return linked.nonzero().T, torch.randint(CLASSES, (NODES,), generator=generator)


def neighbourhoods(links, closed):
    around = [{i} if closed else set() for i in range(NODES)]
    for one, two in links.T.tolist():
        if one != two:
            around[one].add(two)
            around[two].add(one)
    return [found or {i} for i, found in enumerate(around)]


def disagreement(links, labels, closed):
    """Share of label pairs that differ, by loops over all of them."""
    around = neighbourhoods(links, closed)
    share = torch.zeros(NODES, NODES)
    for i in range(NODES):
        for j in range(NODES):
            differ = [bool(labels[k] != labels[m]) for k in around[i] for m in around[j]]
            share[i, j] = sum(differ) / len(differ)
    return share


def vectors():
    return torch.randn(NODES, 4, generator=torch.Generator().manual_seed(1))


@pytest.mark.parametrize("closed", [True, False])
@pytest.mark.parametrize("squared", [True, False])
def test_distances_are_those_of_loops_over_pairs_of_neighbours(graph, closed, squared):
    links, labels = graph
    shares = label_shares(one_hot(labels, CLASSES).float(), links, closed=closed)
    z = vectors()
    found = node_distances(z, shares, squared=squared)
    by_labels = disagreement(links, labels, closed)
    by_vectors = torch.cdist(z, z) ** (2 if squared else 1)
    delta = by_vectors.max() / by_labels.max()
    pairs = torch.combinations(torch.arange(NODES)).T
    expected = (by_vectors + delta * by_labels)[pairs[0], pairs[1]]
    assert found.delta == pytest.approx(delta.item(), rel=1e-5)
    assert_close(found.of(pairs).float(), expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("closed", [True, False])
def test_probabilities_give_the_expected_disagreement(graph, closed):
    links, _ = graph
    generator = torch.Generator().manual_seed(2)
    prob = torch.rand(NODES, CLASSES, generator=generator).softmax(dim=1)
    around = neighbourhoods(links, closed)
    shares = label_shares(prob, links, closed=closed)
    for i, j in ((0, 1), (4, 9), (12, 3)):
        differ = [1 - float(prob[k] @ prob[m]) for k in around[i] for m in around[j]]
        found = 1 - float(shares[i] @ shares[j])
        assert found == pytest.approx(sum(differ) / len(differ), rel=1e-5)


@pytest.mark.parametrize("block", [1, 100, 10**6])
def test_the_nearest_are_found_in_blocks_of_any_size(graph, block, monkeypatch):
    monkeypatch.setattr(module, "BLOCK", block)
    links, labels = graph
    found = node_distances(vectors(), label_shares(one_hot(labels, CLASSES).float(), links))
    near = found.nearest(5)
    everyone = torch.arange(NODES)
    for node in range(NODES):
        others = everyone[everyone != node]
        away = found.of(torch.stack([torch.full_like(others, node), others]))
        assert set(near[node].tolist()) == set(others[away.argsort()[:5]].tolist())


def test_candidates_are_the_union_each_once():
    near = torch.tensor([[1, 2], [0, 2], [1, 3], [2, 1]])
    union = {frozenset((i, j)) for i, row in enumerate(near.tolist()) for j in row}
    found = [frozenset(pair) for pair in candidate_pairs(near).T.tolist()]
    assert set(found) == union
    assert len(found) == len(union)


def test_labels_that_all_agree_leave_the_vectors_to_decide():
    links = torch.stack([torch.arange(NODES - 1), torch.arange(1, NODES)])
    shares = label_shares(torch.ones(NODES, 1), links)
    assert node_distances(vectors(), shares).delta == 0


def test_more_nearest_nodes_than_nodes_are_refused():
    found = NodeDistances(vectors(), torch.ones(NODES, 1), 0.0)
    with pytest.raises(GraphError, match=f"{NODES} nearest nodes"):
        found.nearest(NODES)
