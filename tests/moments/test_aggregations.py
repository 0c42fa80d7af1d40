"""Aggregations: called in every way, their responses, and whole networks against brute force."""

import pytest
import torch
import torch_geometric.nn as gnn
from torch import nn
from torch_geometric.data import Data

import varigraph as vg
from moments.cases import GROUPS, features
from varigraph.errors import MissingRuleError
from varigraph.moments import Gaussian, Propagation, StandIn, propagating, running
from varigraph.moments.maximum import chances
from varigraph.moments.tape import Tape
from varigraph.testing import apply
from varigraph.testing.laws import _along

AGGREGATIONS = {
    "sum": gnn.SumAggregation(),
    "mean": gnn.MeanAggregation(),
    "preserving": gnn.VariancePreservingAggregation(),
    "max": gnn.MaxAggregation(),
    "min": gnn.MinAggregation(),
    "mul": gnn.MulAggregation(),
    "var": gnn.aggr.VarAggregation(),
    "var, half of its gradient": gnn.aggr.VarAggregation(semi_grad=True),
    "std": gnn.aggr.StdAggregation(),
    "softmax": gnn.SoftmaxAggregation(0.7),
    "softmax, half of its gradient": gnn.SoftmaxAggregation(0.7, semi_grad=True),
    "softmax, learnt": gnn.SoftmaxAggregation(1.3, learn=True, channels=4),
    "power": gnn.PowerMeanAggregation(2.0, clamp_min=1e-3),
    "several": gnn.MultiAggregation(["sum", "std", "max"]),
    "mapped": gnn.MultiAggregation(
        ["mean", "var"], mode="proj", mode_kwargs={"in_channels": 4, "out_channels": 3}
    ),
    "added": gnn.MultiAggregation(["mean", "max"], mode="sum"),
    "averaged": gnn.MultiAggregation(["mean", "softmax"], mode="mean"),
    "degrees": gnn.DegreeScalerAggregation(
        ["mean", "std"], ["identity", "attenuation"], torch.tensor([0, 2, 3, 1])
    ),
}
each = pytest.mark.parametrize("name", AGGREGATIONS)


def positive():
    x = features()
    return Gaussian(x.mean.abs() + 0.5, 0.01 * x.var)


@each
def test_responses_are_derivatives_for_small_noise(name):
    """At variances near 0 every recorded response is the plain derivative, by differences."""
    layer, x = AGGREGATIONS[name].double(), positive()
    tape, here = Tape(), Gaussian(x.mean, 1e-10 * x.var)
    tape.record(here)
    with propagating(Propagation(tape=tape)), running(layer, by_rules=True), torch.no_grad():
        out = layer(StandIn(here), GROUPS, dim_size=4).value
    direction = torch.sin(torch.arange(x.mean.numel()).double()).view_as(x.mean)
    found = _along(tape, here, out, direction)
    step = 1e-6
    with torch.no_grad():
        ahead, behind = (
            layer(x.mean + sign * step * direction, GROUPS, dim_size=4) for sign in (1, -1)
        )
    assert torch.allclose(found, (ahead - behind) / (2 * step), rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize(
    "name", sorted(AGGREGATIONS.keys() - {"mul", "degrees"})
)  # which take none
def test_groups_by_pointers_are_the_same(name):
    layer, x = AGGREGATIONS[name], positive()
    want = apply(layer, x, GROUPS, None, 4)
    got = apply(layer, x, None, torch.tensor([0, 3, 5, 5, 6]))
    assert torch.allclose(got.mean, want.mean)
    assert torch.allclose(got.var, want.var)


@each
def test_one_group_of_all(name):
    layer, x = AGGREGATIONS[name], positive()
    got = apply(layer, Gaussian.certain(x.mean))
    assert torch.allclose(got.mean, layer.double()(x.mean))


@each
def test_what_is_certain_goes_through_as_it_is(name):
    layer, x = AGGREGATIONS[name].double(), positive().mean
    with torch.no_grad():
        want = layer(x, GROUPS, dim_size=4)
        with running(layer, by_rules=True):
            assert torch.equal(layer(x, GROUPS, dim_size=4), want)


def test_other_axes_are_refused():
    x = Gaussian(torch.zeros(2, 3, 4), torch.ones(2, 3, 4))
    with pytest.raises(MissingRuleError, match="rows on the first axis"):
        apply(gnn.SumAggregation(), x, torch.tensor([0, 0, 1]))


def test_ways_to_combine_without_a_rule_are_refused():
    layer = gnn.MultiAggregation(["mean", "sum"], mode="logsumexp")
    with pytest.raises(MissingRuleError, match="logsumexp"):
        apply(layer, features(), GROUPS)


# ---- the largest ----


def test_chances_are_those_of_draws():
    """How often each of a group is the largest, over 200,000 draws."""
    x = features()
    draws = torch.normal(
        x.mean.expand(200_000, -1, -1),
        x.var.sqrt().expand(200_000, -1, -1),
        generator=torch.Generator().manual_seed(0),
    )
    found = chances(x, GROUPS, 4)
    for group in GROUPS.unique():
        rows = (group == GROUPS).nonzero().flatten()
        wins = draws[:, rows].argmax(1)
        share = torch.stack([(wins == place).double().mean(0) for place in range(len(rows))])
        assert torch.allclose(found[rows], share, atol=0.006)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("std", [0.0, 1e-12, 1e-3, 1e3])
def test_chances_at_extremes(std, dtype):
    mean = torch.tensor([[1.0, 2.0], [1.5, -400.0], [0.0, 2.0]], dtype=dtype)
    x = Gaussian(mean, torch.full_like(mean, std**2))
    found = chances(x, torch.zeros(3, dtype=torch.long), 1)
    assert torch.allclose(found.sum(0), torch.ones(2, dtype=dtype))
    if std < 0.01:
        want = torch.tensor([[0, 0.5], [1, 0], [0, 0.5]], dtype=dtype)
        assert torch.allclose(found, want, atol=1e-4)
    else:
        assert torch.allclose(found, torch.full_like(found, 1 / 3), atol=0.15)


def test_one_that_is_certain_among_others_that_are_not():
    x = Gaussian(torch.tensor([[0.0], [1.0]]).double(), torch.tensor([[0.0], [4.0]]).double())
    found = chances(x, torch.zeros(2, dtype=torch.long), 1)
    want = torch.special.ndtr(torch.tensor([-0.5, 0.5]).double())
    assert torch.allclose(found[:, 0], want, atol=0.01)


# ---- whole networks against brute force ----


class Largest(nn.Module):
    """Messages that are brought together by hand, and a layer on top."""

    def __init__(self, aggregation):
        super().__init__()
        self.first, self.aggregation = nn.Linear(5, 8), aggregation
        self.last = nn.LazyLinear(3)

    def forward(self, x, edge_index):
        messages = self.first(x)[edge_index[0]]
        return self.last(self.aggregation(messages, edge_index[1], dim_size=len(x)))


def noisy_circle():
    random = torch.Generator().manual_seed(0)
    ends = torch.arange(40)
    sources = torch.cat([ends.roll(1), ends.roll(-1), ends.roll(3)])
    x = torch.randn(40, 5, generator=random).double()
    return Data(x=x, edge_index=torch.stack([sources, ends.repeat(3)]), x_var=0.01)


#: Aggregation, and the median ratio of closed variances to those of 4,000 draws.
NETWORKS = {
    "max": (gnn.MaxAggregation, 0.972),
    "min": (gnn.MinAggregation, 0.975),
    "std": (gnn.aggr.StdAggregation, 0.981),
    "var": (gnn.aggr.VarAggregation, 0.990),
    "softmax": (lambda: gnn.SoftmaxAggregation(1.0), 0.993),
    "several": (lambda: gnn.MultiAggregation(["mean", "min", "max", "std"]), 0.983),
}


@pytest.mark.parametrize("name", NETWORKS)
def test_networks_in_first_order(name):
    build, ratio = NETWORKS[name]
    graph = noisy_circle()
    with torch.random.fork_rng():
        torch.manual_seed(0)
        model = Largest(build()).double()
        model(graph.x, graph.edge_index)
    model.eval()
    closed = vg.predict(model, graph, method="first-order", task="regression", samples=0)
    random = torch.Generator().manual_seed(1)
    with torch.no_grad():
        noise = torch.randn(4000, 40, 5, generator=random).double() * 0.1
        runs = torch.stack([model(graph.x + e, graph.edge_index) for e in noise])
    found = (closed.total / runs.var(0)).median()
    assert float(found) == pytest.approx(ratio, abs=0.01)
