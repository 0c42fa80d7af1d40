import pytest
import torch
from torch import nn
from torch.nn import functional as F
from torch.testing import assert_close
from torch_geometric.nn import GCN, SAGEConv

from baselines.two_groups import changed, two_groups
from varigraph.baselines.plain import McDropout, Plain
from varigraph.errors import OptionError

#: Standard errors within which every figure must lie; with 400 figures one in 10^6 runs fails.
WITHIN = 6.1


class Linear(nn.Module):
    """Dropout on the features, then one linear map."""

    def __init__(self, rate):
        super().__init__()
        torch.manual_seed(0)
        self.lin, self.rate = nn.Linear(6, 2).double(), rate

    def forward(self, x, edge_index):
        return self.lin(F.dropout(x, self.rate, self.training))


class Mixed(nn.Module):
    """Both ways of writing dropout, and a layer whose statistics are not to move."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.one, self.two = SAGEConv(6, 8), SAGEConv(8, 2)
        self.norm, self.drop = nn.BatchNorm1d(8), nn.Dropout(0.4)

    def forward(self, x, edge_index):
        x = F.dropout(self.norm(self.one(x, edge_index)).relu(), 0.3, self.training)
        return self.two(self.drop(x), edge_index)


@pytest.mark.parametrize("rate", [0.1, 0.5])
def test_logits_of_a_linear_network_are_those_of_the_formula(rate):
    graph, model, samples = two_groups(), Linear(rate), 2000
    graph.x = graph.x.double()
    pred = McDropout(model).predict(graph, samples=samples)
    weight = model.lin.weight
    var = rate / (1 - rate) * graph.x.square() @ weight.square().T
    error = (var / samples).sqrt()
    away = (pred.logits.mean - model.lin(graph.x)).abs() / error
    assert away.max() < WITHIN
    # Of a sum of scaled coins: kurtosis - 1 is at most that of one coin, or of a Gaussian.
    spread = (max(1 / (rate * (1 - rate)) - 4, 2) / samples) ** 0.5
    assert ((pred.logits.var / var - 1).abs() < WITHIN * spread).all()


def test_it_agrees_with_a_naive_loop():
    graph, model, samples = two_groups(), Mixed().eval(), 1500
    pred = McDropout(model).predict(graph, samples=samples)
    for module in (model, model.drop):
        module.training = True
    with torch.no_grad(), torch.random.fork_rng(devices=[]):
        torch.manual_seed(1)
        draws = torch.stack([model(graph.x, graph.edge_index).softmax(-1) for _ in range(samples)])
    error = (2 * draws.var(0) / samples).sqrt()
    assert ((pred.mean - draws.mean(0)).abs() / error).max() < WITHIN
    squares = (draws - draws.mean(0)).square()
    error = (2 * squares.var(0) / samples).sqrt()
    assert ((pred.total - squares.mean(0)).abs() / error).max() < WITHIN
    assert_close(pred.epistemic, pred.total)


def test_noise_in_features_and_links_adds_nothing():
    graph, model = two_groups(), Mixed().eval()
    uncertain = changed(graph, x_var=0.5, edge_prob=torch.full((300,), 0.5))
    pred = McDropout(model).predict(uncertain, samples=50)
    weighed = McDropout(model).predict(changed(uncertain, x_var=0.0), samples=50)
    assert pred.total.equal(weighed.total)
    assert not pred.by_source["features"].any()
    assert not pred.by_source["links"].any()
    assert not pred.mean.equal(McDropout(model).predict(graph, samples=50).mean)


def test_without_dropout_it_is_the_plain_network_and_says_so():
    graph = two_groups()
    model = GCN(6, 8, 2, 2, dropout=0.0).eval()
    with pytest.warns(UserWarning, match="no dropout"):
        pred = McDropout(model).predict(graph, samples=10)
    assert_close(pred.mean, Plain(model).predict(graph).mean)
    assert not pred.total.any()


def test_the_error_of_the_mean_falls_with_the_root_of_the_samples():
    graph, method = two_groups(), McDropout(Mixed().eval())
    truth = method.predict(graph, samples=4000, seed=99).mean
    errors = {
        samples: torch.stack(
            [method.predict(graph, samples=samples, seed=seed).mean - truth for seed in range(8)]
        )
        .square()
        .mean()
        for samples in (10, 160)
    }
    assert 8 < errors[10] / errors[160] < 32  # 16 but for chance


def test_the_variance_is_within_the_bounds_of_a_probability():
    pred = McDropout(Mixed().eval()).predict(two_groups(), samples=30)
    assert (29 / 30 * pred.total <= pred.mean * (1 - pred.mean)).all()
    assert (pred.total > 0).all()
    assert pred.std_error is not None


def test_one_draw_has_no_scatter():
    with pytest.raises(OptionError, match="samples=1"):
        McDropout(Mixed()).predict(two_groups(), samples=1)
