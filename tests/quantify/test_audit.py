"""An audit finds what is wrong, does not find what is not, and knows what it cannot tell."""

import json
import math
from dataclasses import astuple

import pytest
import torch
import torch_geometric.nn as gnn
from torch import nn

import varigraph as vg
from prediction.networks import Functional, made, noisy_ring, ring
from varigraph.errors import GraphError, OptionError
from varigraph.prediction.sampled.draws import Design
from varigraph.prediction.sampled.estimates import SampledMoments
from varigraph.quantify.fidelity import Ratio


class Alike(nn.Module):
    """A linear network whose hidden units all move together: its variance is 8 times theirs."""

    def __init__(self):
        super().__init__()
        self.first, self.second = gnn.SAGEConv(4, 8), nn.Linear(8, 3)
        with torch.no_grad():
            for weight in (self.first.lin_l.weight, self.first.lin_r.weight):
                weight.copy_(weight[:1].expand_as(weight))
            self.second.weight.copy_(self.second.weight[:, :1].expand_as(self.second.weight))

    def forward(self, x, edge_index):
        return self.second(self.first(x, edge_index))


def test_correlations_that_a_method_ignores_are_found():
    found = vg.audit(made(Alike), noisy_ring(), method="diagonal", samples=1000)
    (row,) = found.rows
    assert row.source == "total"
    assert row.logits.median == pytest.approx(1 / 8, rel=0.1)
    assert row.coverage < 0.6
    assert not row.logits.agrees
    assert "the method gives 0.1" in str(found)


def test_an_exact_method_agrees():
    graph = noisy_ring(nodes=40)
    found = vg.audit(made(lambda: gnn.SAGEConv(4, 3)), graph, method="diagonal", samples=2000)
    (row,) = found.rows
    assert row.logits.agrees
    assert abs(math.log(row.logits.median)) <= 2 * row.logits.error
    assert 0.97 < row.logits.low <= row.logits.median <= row.logits.high < 1.03
    assert 0.89 < row.coverage < 0.91
    assert row.logits.resolution == pytest.approx((2 / 2000) ** 0.5, rel=0.2)
    assert not found.too_small
    assert "agrees" in str(found)


def test_too_few_draws_are_said_to_be_too_few():
    model = made(lambda: gnn.SAGEConv(4, 3))
    found = vg.audit(model, noisy_ring(), method="diagonal", samples=50)
    assert found.too_small
    assert "too few draws to tell: a variance is known to ±" in str(found)
    fewer = vg.audit(model, noisy_ring(), method="diagonal", samples=3)
    assert fewer.too_small
    assert "too few draws to tell; take" in str(fewer)
    assert json.dumps(fewer.to_dict(), allow_nan=False)


def test_every_source_alone():
    graph = noisy_ring()
    graph.edge_prob = torch.full((12,), 0.7).double()
    coins = {"samples": 200, "links": "bernoulli"}
    found = vg.audit(made(Functional), graph, method="diagonal", **coins)
    assert [row.source for row in found.rows] == ["total", "features", "links", "weights"]
    some = vg.audit(made(Functional), graph, sources=("links", "features"), **coins)
    assert [row.source for row in some.rows] == ["total", "features", "links"]
    read_back = json.loads(json.dumps(found.to_dict(), allow_nan=False))
    assert read_back["rows"][2]["source"] == "links"
    assert read_back["rows"][2]["logits"]["median"] == found.rows[2].logits.median


def test_brute_force_agrees_with_itself():
    found = vg.audit(made(Functional), noisy_ring(), method="sampled", samples=2000)
    for row in found.rows:
        assert abs(math.log(row.logits.median)) < 4 * math.sqrt(2) * row.logits.error


def test_answers_that_nothing_moves_are_left_out_and_counted():
    graph = ring()
    graph.edge_prob = torch.ones(12).double()
    graph.edge_prob[0] = 0.5  # the link 0 -> 1 alone: its way back has a chance of its own
    coins = {"method": "diagonal", "links": "bernoulli"}
    found = vg.audit(made(lambda: gnn.SAGEConv(4, 3)), graph, samples=400, **coins)
    assert found.rows[0].logits.compared == 3
    assert found.rows[0].logits.left_out == 15
    assert "15 left out" in str(found)


def test_regression_and_nodes():
    model, graph = made(Functional), noisy_ring()
    found = vg.audit(model, graph, samples=200, task="regression", nodes=[1, 2])
    assert found.rows[0].logits.compared == 6
    logits, answer = astuple(found.rows[0].logits), astuple(found.rows[0].answer)
    assert logits == pytest.approx(answer, rel=1e-12)
    assert "probabilities" not in str(found)


def test_the_sampling_error_of_the_truth_is_taken_out_of_the_range():
    """True ratios spread by 20 % (one sigma), the truth is sampled to 10 %."""
    generator = torch.Generator().manual_seed(0)
    design = Design(("features",), 200)
    moments = SampledMoments(torch.zeros(4000, 1), design)
    moments.add(torch.randn(200, 4000, 1, generator=generator))
    var = (0.2 * torch.randn(4000, 1, generator=generator)).exp()
    ratio = Ratio.of(var, moments.total, torch.ones(4000, 1, dtype=torch.bool))
    assert ratio.resolution == pytest.approx(0.1, rel=0.1)
    assert ratio.median == pytest.approx(1, abs=0.02)
    assert math.log(ratio.low) == pytest.approx(-1.645 * 0.2, rel=0.1)
    assert math.log(ratio.high) == pytest.approx(1.645 * 0.2, rel=0.1)
    same = Ratio.of(torch.ones(4000, 1), moments.total, torch.ones(4000, 1, dtype=torch.bool))
    assert 0.95 < same.low <= same.high < 1.05
    assert same.agrees


def test_mistakes_are_explained():
    model = made(lambda: gnn.SAGEConv(4, 3))
    with pytest.raises(GraphError, match="nothing is uncertain"):
        vg.audit(model, ring())
    with pytest.raises(OptionError, match="method='guess'"):
        vg.audit(model, noisy_ring(), method="guess")
    with pytest.raises(OptionError, match="samples=1 is not from 2"):
        vg.audit(model, noisy_ring(), samples=1)
