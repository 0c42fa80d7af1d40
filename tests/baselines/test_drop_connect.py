import pytest
import torch
from torch.testing import assert_close

from baselines.two_groups import changed, two_groups
from varigraph.baselines.drop_connect import LOOK_SEED, DropConnect, DropConnectLesson
from varigraph.baselines.drop_connect_layer import MaskedLinks
from varigraph.errors import GraphError, ModelError, OptionError

QUICK = {"layers": 2, "hidden": 8, "epochs": 60, "learning_rate": 0.02}


@pytest.fixture(scope="module")
def graph():
    return two_groups()


@pytest.fixture(scope="module")
def trained(graph):
    return DropConnect.fit(graph, **QUICK)


def test_it_learns(graph, trained):
    pred = trained.predict(graph)
    right = pred.mean.argmax(1) == graph.y
    assert right[graph.test_mask].float().mean() > 0.8
    assert (pred.method, pred.samples) == ("drop-connect", 100)
    assert (pred.total > 0).all()


def test_prediction_is_the_mean_of_hard_masks(graph, trained):
    network, draw = trained.network, torch.Generator().manual_seed(5)
    messages, links = network.first_messages(graph.x), MaskedLinks(graph, blocks=2)
    draws = torch.stack(
        [network(messages, links, draw, relaxed=False).softmax(-1) for _ in range(9)]
    )
    pred = trained.predict(graph, samples=9, seed=5)
    assert_close(pred.mean, draws.mean(0))
    assert_close(pred.total, draws.var(0, correction=0))


def test_the_best_weights_are_kept(graph, monkeypatch):
    losses = iter([0.9, 0.7, 0.8, 0.6, 0.65, 0.75])
    seen = []

    def validation_loss(lesson):
        seen.append(lesson.network.layers[0].weight.detach().clone())
        return next(losses)

    monkeypatch.setattr(DropConnectLesson, "validation_loss", validation_loss)
    trained = DropConnect.fit(graph, **QUICK, patience=20)
    assert trained.epoch == 40
    assert len(seen) == 6
    assert trained.network.layers[0].weight.equal(seen[3])


def test_it_stops_when_patience_ends(graph, monkeypatch):
    losses = iter([0.5, 0.6, 0.6])
    monkeypatch.setattr(DropConnectLesson, "validation_loss", lambda lesson: next(losses))
    assert DropConnect.fit(graph, **QUICK, patience=20).epoch == 10
    assert next(losses, None) is None


def test_the_validation_loss_is_that_of_the_mean_answer(graph, trained):
    draw = torch.Generator()
    lesson = DropConnectLesson(trained.network, graph, MaskedLinks(graph, blocks=2), draw)
    mean = trained.predict(graph, samples=20, seed=LOOK_SEED).mean[graph.val_mask]
    by_hand = -mean.gather(1, graph.y[graph.val_mask][:, None]).log().mean()
    assert lesson.validation_loss() == pytest.approx(by_hand.item(), rel=1e-5)


def test_chances_of_links_weigh_their_messages(graph, trained):
    halved = changed(graph, edge_prob=torch.full((300,), 0.5))
    certain = changed(graph, edge_prob=torch.ones(300))
    assert trained.predict(certain).mean.equal(trained.predict(graph).mean)
    assert not trained.predict(halved).mean.equal(trained.predict(graph).mean)
    quick = {**QUICK, "epochs": 2}
    weights = [DropConnect.fit(g, **quick).network.layers[0].weight for g in (graph, halved)]
    assert not weights[0].equal(weights[1])


@pytest.mark.parametrize("unknown", [-1, 99])
def test_nodes_without_a_label_may_have_any(graph, trained, unknown):
    y = graph.y.masked_fill(graph.test_mask, unknown)
    other = DropConnect.fit(changed(graph, y=y), **QUICK)
    assert other.predict(graph).mean.equal(trained.predict(graph).mean)


@pytest.mark.parametrize("factor", [1e-3, 1e3])
def test_the_size_of_the_features_does_not_matter(graph, trained, factor):
    scaled = changed(graph, x=factor * graph.x)
    pred = DropConnect.fit(scaled, **QUICK).predict(scaled)
    assert_close(pred.mean, trained.predict(graph).mean, rtol=0.02, atol=0.02)


def test_double_precision_and_features_that_are_all_0(graph):
    double = changed(graph, x=torch.zeros(80, 3).double())
    pred = DropConnect.fit(double, **QUICK).predict(double)
    assert pred.mean.dtype == torch.float64
    assert pred.mean.isfinite().all()


@pytest.mark.parametrize(
    "wrong", [{"layers": 0}, {"hidden": 1}, {"blocks": 0}, {"epochs": 0}], ids=str
)
def test_wrong_options_are_refused(graph, wrong):
    with pytest.raises(OptionError, match=next(iter(wrong))):
        DropConnect.fit(graph, **wrong)


def test_mistakes_are_explained(graph, trained):
    with pytest.raises(GraphError, match="val_mask"):
        DropConnect.fit(changed(graph, val_mask=None))
    with pytest.raises(ModelError, match="learning rate"):
        DropConnect.fit(graph, **{**QUICK, "epochs": 3, "learning_rate": 1e30})
    with pytest.raises(ModelError, match="5 features"):
        trained.predict(changed(graph, x=graph.x[:, :5]))
    with pytest.raises(ModelError, match="float64"):
        trained.predict(changed(graph, x=graph.x.double()))
    with pytest.raises(GraphError, match="edge_index"):
        trained.predict(changed(graph, edge_index=None))
    with pytest.raises(OptionError, match="no draws"):
        trained.predict(graph, samples=0)
