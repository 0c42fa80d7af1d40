import pytest
from torch import nn
from torch_geometric.nn import GATConv, GCNConv, GINConv, GraphSAGE, SAGEConv

from cli.own_networks import small_graph
from varigraph.errors import OptionError
from varigraph.moments import uncovered
from varigraph.moments.registry import LAYERS, TRANSPARENT
from varigraph.studies.own_model.rule_check import NO_RULE, OWN_CODE, layer_rows, rule_check


def rules(model):
    return {row.where: row.rule for row in layer_rows(model)}


def test_rows_are_the_layers_and_not_their_parts():
    found = rules(GraphSAGE(5, 4, 2, 3, dropout=0.5, norm="batch"))
    assert found["the model itself"] == OWN_CODE
    assert found["convs.0"] == "convolutions.sage_conv"
    assert found["act"] == "pieces.relu"
    assert found["dropout"] == "layers.dropout"
    assert found["norms.0.module"] == "layers.batch_norm"
    assert not [name for name in found if "lin_" in name or "aggr" in name]


def test_parts_that_the_user_gave_are_shown():
    inner = nn.Sequential(nn.Linear(5, 4), nn.ReLU(), nn.Identity(), nn.Softmin(dim=1))
    found = rules(nn.Sequential(GINConv(inner), nn.Bilinear(2, 2, 2)))
    assert found["0.nn.0"] == "layers.linear"
    assert found["0.nn.2"] == "shapes.moves_alike"
    assert found["0.nn.3"] == found["1"] == OWN_CODE
    assert "0.nn" not in found  # a container does nothing of its own


class Doubled(SAGEConv):
    def message(self, x_j):
        return 2 * x_j


def test_the_reason_is_that_of_the_engine():
    model = nn.Sequential(Doubled(5, 4), GATConv(4, 2), GCNConv(2, 2))
    rows = {row.where: row for row in layer_rows(model)}
    for name, why in uncovered(model).items():
        assert (rows[name].rule, rows[name].note) == (NO_RULE, why)
    assert rows["2"].covered


def test_every_rule_of_the_registry_has_a_name():
    from varigraph.studies.own_model.rule_check import rule_name

    for rule in [*LAYERS.values(), *TRANSPARENT.values()]:
        assert "." in rule_name(rule)
        assert not rule_name(rule).startswith("varigraph")


def test_a_network_without_dropout_is_judged_in_silence():
    found = rule_check(GraphSAGE(5, 4, 2, 3).eval(), small_graph(x_var=0.1))
    assert (found.covered, found.method) == (True, "first-order")


def test_a_task_that_is_unknown():
    with pytest.raises(OptionError, match="task='guess' is unknown"):
        rule_check(GCNConv(2, 2), task="guess")


def test_approximate_rules_are_named_in_the_verdict():
    graph = small_graph(x_var=0.02)
    model = GraphSAGE(graph.num_features, 4, 2, 3, norm="LayerNorm").eval()
    found = rule_check(model, graph)
    assert found.method == "first-order"
    assert found.reason == "if draws agree, since the rule of LayerNorm is approximate"
