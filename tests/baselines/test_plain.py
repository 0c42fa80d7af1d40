import pytest
import torch
from torch import nn
from torch.testing import assert_close
from torch_geometric.nn import GCN, SAGEConv

from baselines.two_groups import changed, two_groups
from varigraph.baselines.plain import Plain
from varigraph.errors import ModelError
from varigraph.moments import LinkProbabilities
from varigraph.moments.messages import scaled_messages


class Ending(nn.Module):
    """A network that ends in some form of the softmax, and is in training mode."""

    def __init__(self, last):
        super().__init__()
        torch.manual_seed(0)
        self.inner, self.last = GCN(6, 8, 2, 2, dropout=0.5, norm="batch_norm"), last

    def forward(self, x, edge_index):
        return self.last(self.inner(x, edge_index))


@pytest.mark.parametrize("last", [nn.Identity(), nn.Softmax(-1), nn.LogSoftmax(-1)], ids=repr)
def test_it_is_the_softmax_in_evaluation_mode(last):
    graph, model = two_groups(), Ending(last)
    state = {name: value.clone() for name, value in model.state_dict().items()}
    pred = Plain(model).predict(graph)
    assert model.training
    assert all(value.equal(state[name]) for name, value in model.state_dict().items())
    assert_close(pred.mean, model.eval().inner(graph.x, graph.edge_index).softmax(-1))
    assert not pred.total.any()
    assert (pred.method, pred.samples) == ("plain", 1)


def test_noise_is_not_looked_at_and_chances_weigh_the_messages():
    graph, model = two_groups(), Ending(nn.Identity()).eval()
    half = changed(graph, edge_prob=torch.full((300,), 0.5), x_var=0.3)
    chances = LinkProbabilities(half.edge_index, half.edge_prob, 80)
    with scaled_messages(model, chances):
        logits = model(graph.x, graph.edge_index)
    pred = Plain(model).predict(half)
    assert_close(pred.mean, logits.softmax(-1))
    assert not pred.total.any()


def test_what_a_network_draws_in_training_alone_is_not_drawn():
    class Shaken(Ending):
        def forward(self, x, edge_index):
            return super().forward(x + torch.randn_like(x) * self.training, edge_index)

    graph, model = two_groups(), Shaken(nn.Identity())
    one, same = (Plain(model).predict(graph).mean for _ in range(2))
    assert one.equal(same)
    assert_close(one, model.eval()(graph.x, graph.edge_index).softmax(-1))


def test_an_answer_that_is_no_logits_is_refused():
    with pytest.raises(ModelError, match="one value per class"):
        Plain(SAGEConv(6, 1)).predict(two_groups())
