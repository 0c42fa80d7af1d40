import copy
from importlib import import_module

import pytest
import torch
from torch import nn
from torch.nn import functional as F
from torch_geometric.data import Data
from torch_geometric.nn import APPNP, GAT, GCN, SAGEConv

from varigraph.errors import GraphError, ModelError, OptionError
from varigraph.moments import LinkProbabilities
from varigraph.moments.messages import scaled_messages
from varigraph.training import paper_network, train
from varigraph.training.batch import NeighbourSampler


def validation_loss(model, graph):
    logits = model(graph.x, graph.edge_index)[graph.val_mask]
    return nn.functional.cross_entropy(logits, graph.y[graph.val_mask]).item()


def test_it_learns(graph):
    model = paper_network(graph)
    history = train(model, graph, epochs=15, batch_size=10, learning_rate=1e-2)
    assert history.loss[-1] < history.loss[0] / 3
    right = model(graph.x, graph.edge_index).argmax(1) == graph.y
    assert right[graph.test_mask].float().mean() > 0.8
    assert not model.training


def test_the_best_weights_are_kept(graph):
    model = paper_network(graph)
    history = train(model, graph, epochs=12, batch_size=10, learning_rate=0.05)
    assert validation_loss(model, graph) == pytest.approx(min(history.validation))
    assert history.best_epoch == history.validation.index(min(history.validation)) + 1
    assert len(history.loss) == len(history.validation) == 12


def test_the_seed_decides_and_the_global_generator_is_left_alone(graph):
    def trained(seed):
        model = paper_network(graph)
        train(model, graph, epochs=2, batch_size=10, seed=seed)
        return model.dense3.weight

    before = torch.get_rng_state()
    assert trained(1).equal(trained(1))
    assert not trained(1).equal(trained(2))
    assert torch.get_rng_state().equal(before)


def test_probabilities_weight_the_messages_in_training_and_validation(graph):
    half = copy.copy(graph)
    half.edge_prob = torch.full((300,), 0.5)
    certain = copy.copy(graph)
    certain.edge_prob = torch.ones(300)
    models = {name: paper_network(graph) for name in ("none", "certain", "half")}
    train(models["none"], graph, epochs=2)
    train(models["certain"], certain, epochs=2)
    history = train(models["half"], half, epochs=2)
    assert models["none"].dense3.weight.equal(models["certain"].dense3.weight)
    assert not models["none"].dense3.weight.equal(models["half"].dense3.weight)
    with scaled_messages(
        models["half"], LinkProbabilities(half.edge_index, half.edge_prob, half.num_nodes)
    ):
        loss = validation_loss(models["half"], graph)
    assert loss == pytest.approx(min(history.validation))


@pytest.mark.parametrize("network", [GCN, GAT])
def test_other_networks_with_uncertain_links(graph, network):
    graph.edge_prob = torch.where(graph.edge_index[0] > graph.edge_index[1], 0.9, 0.6)
    torch.manual_seed(0)
    model = network(6, 8, num_layers=3, out_channels=2)
    history = train(model, graph, epochs=5, batch_size=10, learning_rate=1e-2)
    assert history.loss[-1] < history.loss[0]


class Deep(nn.Module):
    """Five steps: two layers, and one that takes three."""

    def __init__(self):
        super().__init__()
        self.first, self.second = SAGEConv(6, 4), SAGEConv(4, 2)
        self.last = APPNP(K=3, alpha=0.1)

    def forward(self, x, edge_index):
        return self.last(self.second(self.first(x, edge_index), edge_index), edge_index)


@pytest.mark.parametrize(
    ("build", "reach"), [(Deep, [10, 8, 8, 8, 8]), (lambda: SAGEConv(6, 2), [10, 8])]
)
def test_fanouts_reach_as_far_as_the_network(graph, monkeypatch, build, reach):
    module, asked = import_module("varigraph.training.train"), []

    def noted(edge_index, nodes, fanouts, flow):
        asked.append(fanouts)
        return NeighbourSampler(edge_index, nodes, fanouts, flow)

    monkeypatch.setattr(module, "NeighbourSampler", noted)
    train(build(), graph, epochs=1, fanouts=(10, 8))
    assert asked == [reach]


def test_progress_is_told(graph):
    told = []
    train(paper_network(graph), graph, epochs=2, progress=lambda *step: told.append(step))
    assert [step[:2] for step in told] == [(1, 2), (2, 2)]


class BothWays(nn.Module):
    """Messages go along the links, and then against them."""

    def __init__(self):
        super().__init__()
        self.there, self.back = SAGEConv(6, 2), SAGEConv(2, 2, flow="target_to_source")

    def forward(self, x, edge_index):
        return self.back(self.there(x, edge_index), edge_index)


def test_mistakes_are_explained(graph):
    model = paper_network(graph)
    with pytest.raises(OptionError, match="epochs"):
        train(model, graph, epochs=0)
    with pytest.raises(OptionError, match="fanouts"):
        train(model, graph, epochs=1, fanouts=())
    with pytest.raises(ModelError, match="learning rate"):
        train(model, graph, epochs=3, learning_rate=1e30)
    with pytest.raises(ModelError, match="one value per class"):
        train(SAGEConv(6, 1), graph, epochs=1)
    with pytest.raises(ModelError, match="both directions"):
        train(BothWays(), graph)


def one_good_feature_that_noise_will_blur():
    """Feature 0 tells the class, but will be blurred; features 1 to 4 tell less, but stay."""
    draw = torch.Generator().manual_seed(5)
    y = torch.arange(300) % 2
    sign = 2.0 * y[:, None] - 1
    x = sign + torch.tensor([0.1, 2, 2, 2, 2]) * torch.randn(300, 5, generator=draw)
    part = torch.arange(300) % 5
    return Data(
        x=x,
        edge_index=torch.randint(300, (2, 600), generator=draw),
        x_var=torch.tensor([25.0, 0, 0, 0, 0]),
        y=y,
        train_mask=part < 3,
        val_mask=part == 3,
        test_mask=part == 4,
    )


@pytest.mark.parametrize("noise", ["propagate", "inject"])
@pytest.mark.parametrize("batch_size", [None, 60])
def test_a_network_that_knows_the_noise_is_hurt_less_by_it(noise, batch_size):
    graph = one_good_feature_that_noise_will_blur()
    draw = torch.Generator().manual_seed(6)
    seen = graph.x + graph.x_var.sqrt() * torch.randn(20, 300, 5, generator=draw)
    losses = {}
    for known in (None, noise):
        model = paper_network(graph)
        train(model, graph, noise=known, batch_size=batch_size, epochs=60, learning_rate=0.02)
        with torch.no_grad():
            logits = model(seen, graph.edge_index)[:, graph.test_mask].flatten(0, 1)
        losses[known] = F.cross_entropy(logits, graph.y[graph.test_mask].repeat(20)).item()
    assert losses[noise] < 0.65
    assert losses[None] > 1


@pytest.mark.parametrize("noise", ["propagate", "inject"])
def test_noise_of_variance_0_changes_nothing(graph, noise):
    plain, known = paper_network(graph), paper_network(graph)
    train(plain, graph, epochs=2)
    graph.x_var = torch.zeros(())
    train(known, graph, epochs=2, noise=noise)
    for one, other in zip(plain.parameters(), known.parameters(), strict=True):
        assert torch.equal(one, other)


@pytest.mark.parametrize("noise", [None, "propagate", "inject"])
@pytest.mark.parametrize("batch_size", [None, 16])
def test_labels_of_test_nodes_are_never_read(graph, noise, batch_size):
    graph.x_var = torch.tensor(0.1)
    trained = []
    for labels in (graph.y, torch.where(graph.test_mask, 1 - graph.y, graph.y)):
        graph.y = labels
        model = paper_network(graph)
        train(model, graph, noise=noise, batch_size=batch_size, epochs=3)
        trained.append(model.state_dict())
    assert all(torch.equal(trained[0][name], trained[1][name]) for name in trained[0])


def test_patience_ends_the_training(graph):
    model = paper_network(graph)
    history = train(model, graph, epochs=200, batch_size=None, learning_rate=0.05, patience=3)
    assert len(history.loss) == history.best_epoch + 3 < 200


def test_noise_that_nobody_stated_is_refused(graph):
    with pytest.raises(GraphError, match="does not say how noisy"):
        train(paper_network(graph), graph, noise="inject")
    with pytest.raises(OptionError, match="noise='guess'"):
        train(paper_network(graph), graph, noise="guess")
    with pytest.raises(OptionError, match="patience=0"):
        train(paper_network(graph), graph, patience=0)
