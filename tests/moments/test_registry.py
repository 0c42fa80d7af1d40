"""The table of rules never guesses."""

import pytest
import torch
import torch_geometric.nn as gnn
from torch import nn
from torch.nn import functional as F

import varigraph as vg
from varigraph.errors import MissingRuleError, OptionError
from varigraph.moments import Gaussian, running, uncovered
from varigraph.moments.registry import FUNCTIONS, LAYERS, implements, rule_for_layer

X = Gaussian(torch.ones(2, 3), torch.ones(2, 3))


class Doubled(gnn.GCNConv):
    def message(self, x_j, edge_weight):
        return 2 * super().message(x_j, edge_weight)


class Renamed(gnn.GCNConv):
    def __init__(self, channels):
        super().__init__(channels, channels)

    def extra_repr(self):
        return "renamed"


def test_a_subclass_that_overrides_message_has_no_rule():
    assert rule_for_layer(Doubled(3, 3)) is None


def test_a_subclass_that_computes_the_same_keeps_the_rule():
    assert rule_for_layer(Renamed(3)) is LAYERS[gnn.GCNConv]


def test_all_uncovered_layers_are_named_at_once():
    model = nn.ModuleDict(
        {"first": gnn.GATConv(3, 3), "second": nn.LSTM(3, 3), "third": gnn.GCNConv(3, 3)}
    )
    assert list(uncovered(model)) == ["second"]
    with pytest.raises(MissingRuleError, match=r"(?s)1 layer\(s\).*second.*LSTM"):
        running(model, by_rules=True).__enter__()


@pytest.mark.parametrize(
    "call",
    [
        torch.fft.fft,
        lambda x: x > 0,
        bool,
        lambda x: x**3,
        lambda x: F.linear(torch.ones(2, 3), x),
        lambda x: torch.sum(x, 0, dtype=torch.float64),
        lambda x: F.alpha_dropout(x, training=True),
        lambda x: x.__setitem__(0, 1.0),
    ],
)
def test_what_has_no_rule_is_refused(call):
    with pytest.raises(MissingRuleError, match="remedy"):
        call(X)


def test_a_second_rule_for_the_same_thing_is_refused():
    with pytest.raises(OptionError, match="relu has a rule already"):
        implements(F.relu, exactness="exact")(lambda x: x)


def test_a_rule_of_the_users_own():
    class Halve(nn.Module):
        def forward(self, x, edge_index):
            return torch.div(x, 2, rounding_mode=None)

    @vg.implements(Halve, exactness="exact")
    def halve(layer, x, edge_index):
        return Gaussian(x.mean / 2, x.var / 4)

    try:
        from torch_geometric.data import Data

        graph = Data(x=torch.ones(2, 3), edge_index=torch.tensor([[0], [1]]), x_var=4.0)
        pred = vg.predict(Halve(), graph, method="diagonal", samples=0, task="regression")
        assert pred.total.tolist() == [[1.0] * 3] * 2
    finally:
        del LAYERS[Halve]


def test_every_spelling_finds_the_same_rule():
    spellings = [torch.relu, F.relu, torch.Tensor.relu, torch.relu_, torch.Tensor.relu_]
    assert len({id(FUNCTIONS[s]) for s in spellings}) == 1
