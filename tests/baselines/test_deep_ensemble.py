import pytest
import torch
from torch.testing import assert_close
from torch_geometric.nn import GCN

from baselines.two_groups import two_groups
from varigraph.baselines.plain import DeepEnsemble
from varigraph.errors import OptionError
from varigraph.training import paper_network, train

GRAPH = two_groups()
QUICK = {"epochs": 3, "learning_rate": 1e-2}


def build(seed):
    return paper_network(GRAPH, seed=seed)


@pytest.fixture(scope="module")
def ensemble():
    return DeepEnsemble.fit(build, GRAPH, members=3, seed=2, **QUICK)


def test_members_differ(ensemble):
    weights = [model.dense3.weight for model in ensemble.models]
    assert len(weights) == 3
    assert not any(weights[i].equal(weights[j]) for i, j in [(0, 1), (0, 2), (1, 2)])


def test_a_member_is_what_its_seed_gives(ensemble):
    model = build(2001)
    train(model, GRAPH, seed=2001, **QUICK)
    for name, value in ensemble.models[1].state_dict().items():
        assert value.equal(model.state_dict()[name])


def test_ensembles_of_other_seeds_share_no_member(ensemble):
    other = DeepEnsemble.fit(build, GRAPH, members=3, seed=3, **QUICK)
    known = [model.dense3.weight for model in ensemble.models]
    assert not any(m.dense3.weight.equal(weight) for m in other.models for weight in known)


def test_it_is_the_average_by_hand(ensemble):
    pred = ensemble.predict(GRAPH)
    classes = torch.stack([m(GRAPH.x, GRAPH.edge_index).softmax(-1) for m in ensemble.models])
    assert_close(pred.mean, classes.mean(0))
    assert_close(pred.total, classes.var(0, correction=0))
    assert (pred.method, pred.samples) == ("deep-ensemble", 3)
    assert pred.total.any()


def test_members_answer_without_dropout():
    torch.manual_seed(0)
    models = [GCN(6, 8, 2, 2, dropout=0.5) for _ in range(2)]
    ensemble = DeepEnsemble(models)
    assert ensemble.predict(GRAPH, seed=1).mean.equal(ensemble.predict(GRAPH, seed=2).mean)


@pytest.mark.parametrize("members", [-1, 0, 1, 1001])
def test_wrong_numbers_of_members_are_refused(members):
    with pytest.raises(OptionError, match="members"):
        DeepEnsemble.fit(build, GRAPH, members=members)


def test_one_network_is_no_ensemble():
    with pytest.raises(OptionError, match="no scatter"):
        DeepEnsemble([build(0)])
