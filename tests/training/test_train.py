import copy

import pytest
import torch
from torch import nn
from torch_geometric.nn import APPNP, GAT, GCN, SAGEConv

from varigraph.errors import ModelError, OptionError
from varigraph.moments import LinkProbabilities
from varigraph.moments.messages import scaled_messages
from varigraph.training import paper_network, train
from varigraph.training.train import _fanouts


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


def test_fanouts_reach_as_far_as_the_network():
    deep = nn.ModuleList([SAGEConv(2, 2), SAGEConv(2, 2), APPNP(K=3, alpha=0.1)])
    assert _fanouts((10, 8), deep) == [10, 8, 8, 8, 8]
    assert _fanouts((10, 8), SAGEConv(2, 2)) == [10, 8]


def test_progress_is_told(graph):
    told = []
    train(paper_network(graph), graph, epochs=2, progress=lambda *step: told.append(step))
    assert [step[:2] for step in told] == [(1, 2), (2, 2)]


def test_mistakes_are_explained(graph):
    model = paper_network(graph)
    with pytest.raises(OptionError, match="epochs"):
        train(model, graph, epochs=0)
    with pytest.raises(OptionError, match="fanouts"):
        train(model, graph, epochs=1, fanouts=())
    with pytest.raises(ModelError, match="learning rate"):
        train(model, graph, epochs=3, learning_rate=1e30)
    with pytest.raises(ModelError, match="one output per class"):
        train(SAGEConv(6, 1), graph, epochs=1)
    with pytest.raises(ModelError, match="both directions"):
        train(nn.ModuleList([SAGEConv(6, 2), SAGEConv(6, 2, flow="target_to_source")]), graph)
