"""What is listed is what the engine asks the registry for."""

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch_geometric.nn import SAGEConv, global_mean_pool

from cli.own_networks import small_graph
from varigraph.errors import VarigraphError
from varigraph.moments import Gaussian, Propagation, StandIn, propagating, running
from varigraph.studies.own_model.rule_check import called_functions


class Calls(nn.Module):
    def __init__(self, function):
        super().__init__()
        self.conv, self.function = SAGEConv(5, 4), function

    def forward(self, x, edge_index):
        return self.function(self.conv(x, edge_index))


def found(function):
    model, graph = Calls(function).eval(), small_graph()
    return called_functions(model, lambda x: model(x, graph.edge_index), graph.x)


def engine_refuses(function):
    model, graph = Calls(function).eval(), small_graph()
    x = StandIn(Gaussian(graph.x, torch.full_like(graph.x, 0.1)))
    with running(model, by_rules=True), propagating(Propagation()), torch.no_grad():
        try:
            model(x, graph.edge_index)
        except VarigraphError:
            return True
    return False


CASES = {
    "x + 1": (lambda x: x + 1, ["add"]),
    "1 - x": (lambda x: 1 - x, ["sub"]),
    "2 * x": (lambda x: 2 * x, ["mul"]),
    "2 / x": (lambda x: 2 / x, ["div"]),
    "x / 2": (lambda x: x / 2, ["div"]),
    "-x": (lambda x: -x, ["neg"]),
    "x @ w": (lambda x: x @ torch.ones(4, 2), ["matmul"]),
    "x ** 2": (lambda x: x**2, ["pow"]),
    "2 ** x": (lambda x: 2**x, ["pow"]),
    "abs(x)": (abs, ["abs"]),
    "x == 0": (lambda x: x == 0, ["__eq__"]),
    "x > 0": (lambda x: x > 0, ["gt"]),
    "x[0]": (lambda x: x[:3], ["__getitem__"]),
    "x.T": (lambda x: x.T, ["T"]),
    "x.shape": (lambda x: x.relu().view(x.shape[0], x.size(1)), ["relu", "view"]),
    "relu": (lambda x: F.relu(torch.relu(x.relu())), ["relu"]),
    "in place": (lambda x: x.relu_(), ["relu_"]),
    "cat": (lambda x: torch.cat([x, x], dim=1), ["cat"]),
    "dropout": (lambda x: F.dropout(x, 0.5, training=False), ["dropout"]),
    "two missing": (lambda x: x.cumsum(0).sort(0).values, ["cumsum", "sort"]),
    "softmax": (lambda x: F.log_softmax(x, dim=-1), ["log_softmax"]),
    "pool": (lambda x: global_mean_pool(x, torch.zeros(12, dtype=torch.long)), None),
    "module": (nn.Linear(4, 2), ["linear"]),
}


#: What has a rule that does not hold for all arguments.
PARTLY = {"2 / x", "2 ** x"}


@pytest.mark.parametrize("name", CASES)
def test_functions_are_those_that_the_engine_wants_rules_for(name):
    function, expected = CASES[name]
    met = found(function)
    if expected is not None:
        assert list(met) == expected
    if name not in PARTLY:
        assert (None in met.values()) == engine_refuses(function)


def test_layers_are_left_as_they_were():
    model, graph = Calls(torch.relu).eval(), small_graph()
    called_functions(model, lambda x: model(x, graph.edge_index), graph.x)
    assert not any(module._forward_hooks or module._forward_pre_hooks for module in model.modules())
    assert type(model(graph.x, graph.edge_index)) is torch.Tensor


def test_a_layer_alone_calls_nothing():
    conv, graph = SAGEConv(5, 2), small_graph()
    assert called_functions(conv, lambda x: conv(x, graph.edge_index), graph.x) == {}
