import json

import pytest
import torch
from typer.testing import CliRunner

import varigraph as vg
from cli.own_networks import network, small_graph, write_networks
from varigraph.cli import app
from varigraph.moments.registry import rule_for_layer


@pytest.fixture
def networks(tmp_path):
    return write_networks(tmp_path)


@pytest.fixture
def graph_file(tmp_path):
    torch.save(small_graph(x_var=0.02), tmp_path / "graph.pt")
    return tmp_path / "graph.pt"


def check(*arguments):
    return CliRunner().invoke(app, ["check", *map(str, arguments)])


def by_name(rows):
    return {row["where"]: row for row in rows}


def test_layers_have_the_rules_of_the_registry(networks):
    done = check(f"{networks}:Net", "--json")
    assert done.exit_code == 0, done.output
    found = json.loads(done.stdout)
    rows = by_name(found["layers"])
    assert set(rows) == {"the model itself", "first", "second"}
    rule = rule_for_layer(network(networks).first)
    assert rows["first"]["rule"] == "convolutions.sage_conv"
    assert (rows["first"]["exactness"], rows["first"]["note"]) == (rule.exactness, rule.note)
    assert found["functions"] is None
    assert (found["covered"], found["method"]) == (True, "first-order")


def test_with_a_graph_functions_are_listed_and_the_verdict_is_that_of_auto(networks, graph_file):
    done = check(f"{networks}:Net", graph_file, "--json")
    assert done.exit_code == 0, done.output
    found = json.loads(done.stdout)
    functions = by_name(found["functions"])
    assert list(functions) == ["relu()", "dropout()"]
    assert functions["relu()"]["exactness"] == "exact"
    assert found["reason"].startswith("if draws agree, since class probabilities under dropout")
    auto = vg.predict(network(networks), small_graph(x_var=0.02), samples=3).method
    assert auto.startswith(f"{found['method']}: 100 draws agree, with ")


def test_uncertain_links_are_drawn_as_auto_draws_them(networks, graph_file):
    graph = small_graph(x_var=0.02, edge_prob=torch.full((30,), 0.8))
    torch.save(graph, graph_file)
    done = check(f"{networks}:Net", graph_file, "--json")
    assert done.exit_code == 1  # it would sample
    found = json.loads(done.stdout)
    auto = vg.predict(network(networks), graph).method
    assert auto == f"{found['method']}: {found['reason']}"


def test_every_function_without_a_rule_is_named_not_only_the_first(networks, graph_file):
    done = check(f"{networks}:Waves", graph_file, "--json")
    assert done.exit_code == 0
    found = json.loads(done.stdout)
    rules = {name: row["rule"] for name, row in by_name(found["functions"]).items()}
    none = "no rule: by derivatives"
    assert rules == {"sinh()": none, "erf()": none, "sub()": "arithmetic.sub"}
    model, graph = network(networks, "Waves"), small_graph(x_var=0.02)
    assert found["reason"] == "if draws agree, since the rule of sinh, erf is approximate"
    pred = vg.predict(model, graph, method="first-order", samples=0)
    assert pred.approximate == ("sinh", "erf")


@pytest.mark.parametrize("with_graph", [False, True])
def test_a_layer_without_a_rule_runs_as_it_is(networks, graph_file, with_graph):
    more = [graph_file, "--forward", f"{networks}:attend"] if with_graph else []
    done = check(f"{networks}:attention", *more, "--json")
    assert done.exit_code == 0, done.output
    found = json.loads(done.stdout)
    rows = by_name(found["layers"])
    assert rows["0"]["rule"] == "layers.linear"
    assert rows["1"]["rule"] == "runs as it is"
    assert found["method"] == "first-order"


def test_it_is_shown_as_a_table_with_a_verdict(networks, graph_file):
    done = check(f"{networks}:Waves", graph_file)
    assert done.exit_code == 0
    assert "everything can be followed; auto takes first-order: if draws agree" in done.stdout
    assert any(line.split()[:3] == ["first", "SAGEConv", "convolutions.sage_conv"]
               for line in done.stdout.splitlines())  # fmt: skip
    assert "\x1b" not in done.stdout
    assert done.stderr == "imported\n"


def test_memory_that_is_too_small_is_told(networks, graph_file):
    done = check(f"{networks}:Net", graph_file, "--memory", "20MiB", "--json")
    found = json.loads(done.stdout)
    assert done.exit_code == 1
    assert found["covered"]
    assert found["method"] == "sampled"


@pytest.mark.parametrize(
    ("change", "culprit"),
    [
        (["nowhere.py:Net"], "there is no file nowhere.py"),
        (["{networks}:Net", "coral"], "coral is no file"),
        (
            ["{networks}:Net", "{graph}", "--arguments", '{"features": 3}'],
            "takes 3 features, graph.x has 5",
        ),
        (["{networks}:value", "{graph}"], "not one value per class"),
        (["{networks}:Net", "{graph}", "--task", "guess"], "--task 'guess' is unknown"),
    ],
)
def test_mistakes_are_explained(networks, graph_file, change, culprit):
    texts = [t.replace("{networks}", str(networks)) for t in change]
    done = check(*[t.replace("{graph}", str(graph_file)) for t in texts])
    assert done.exit_code == 2, done.output
    assert culprit in done.stderr
    assert "remedy: " in done.stderr
    assert done.stdout == ""
    assert "Traceback" not in done.stderr
