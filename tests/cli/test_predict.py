import csv
import json
import os
import pickle
import sys
from importlib import import_module

import numpy as np
import pyarrow.parquet as pq
import pytest
import torch
from safetensors.torch import save_file
from torch_geometric.nn import GraphSAGE
from typer.testing import CliRunner

import varigraph as vg
from cli.own_networks import CLASSES, NAMES, NODES, network, small_graph, write_networks
from varigraph.cli import app
from varigraph.studies import run as study
from varigraph.studies.own_model.saved_files import read_graph

PARTS = ("features", "links", "weights", "interactions")


@pytest.fixture
def networks(tmp_path):
    return write_networks(tmp_path)


@pytest.fixture
def weights(networks, tmp_path):
    torch.save(network(networks).state_dict(), tmp_path / "weights.pt")
    return tmp_path / "weights.pt"


@pytest.fixture
def graph_file(tmp_path):
    graph = small_graph(x_var=0.02, edge_prob=torch.full((30,), 0.8))
    graph.node_names = NAMES
    torch.save(graph, tmp_path / "graph.pt")
    return tmp_path / "graph.pt"


@pytest.fixture
def expected(networks, graph_file):
    """What the library says, called directly."""
    graph = small_graph(x_var=0.02, edge_prob=torch.full((30,), 0.8))
    return vg.predict(network(networks), graph, samples=6, seed=3, links="bernoulli")


@pytest.fixture
def command(networks, weights, graph_file):
    asked = ["--samples", 6, "--seed", 3, "--links", "bernoulli"]
    return [f"{networks}:Net", graph_file, "--weights", weights, *asked]


def predict(*arguments):
    return CliRunner().invoke(app, ["predict", *map(str, arguments)])


def rows_of(path):
    with path.open(encoding="utf-8", newline="") as stream:
        return list(csv.DictReader(stream))


def agrees(rows, expected):
    """Whether a table says the same as the library does."""
    column = {name: np.array([float(row[name]) for row in rows]) for name in rows[0] if "_" in name}
    for c in range(CLASSES):
        assert column[f"mean_{c}"] == pytest.approx(expected.mean[:, c].numpy(), rel=1e-5)
        assert column[f"total_{c}"] == pytest.approx(expected.total[:, c].numpy(), rel=1e-5)
        for part in PARTS:
            wanted = expected.by_source[part][:, c].numpy()
            assert column[f"{part}_{c}"] == pytest.approx(wanted, rel=1e-5, abs=1e-12)


def test_the_table_says_what_the_library_says(command, expected, tmp_path):
    done = predict(*command, "--out", tmp_path / "nodes.csv")
    assert done.exit_code == 0, done.output
    assert done.stdout.splitlines()[-1] == str(tmp_path / "nodes.csv")
    name, reason = expected.method.split(": ")
    assert f"Net on graph.pt: 12 nodes, 3 classes; {name} ({reason})" in done.stdout
    rows = rows_of(tmp_path / "nodes.csv")
    agrees(rows, expected)
    assert [row["name"] for row in rows] == NAMES
    assert [int(row["node"]) for row in rows] == list(range(NODES))
    assert [int(row["predicted"]) for row in rows] == expected.mean.argmax(1).tolist()
    label = expected.mean.argmax(1, keepdim=True)
    for name, wanted in {
        "confidence": expected.mean.gather(1, label)[:, 0],
        "confidence_std": expected.total.gather(1, label)[:, 0].sqrt(),
        "total": expected.total.sum(1),
        **{part: expected.by_source[part].sum(1) for part in PARTS},
    }.items():
        found = [float(row[name]) for row in rows]
        assert found == pytest.approx(wanted.tolist(), rel=1e-5, abs=1e-12), name


def test_parquet_has_the_same_columns_and_numbers(command, expected, tmp_path):
    for name in ("nodes.csv", "nodes.parquet"):
        assert predict(*command, "--out", tmp_path / name).exit_code == 0
    table = pq.read_table(tmp_path / "nodes.parquet")
    assert table.column_names == list(rows_of(tmp_path / "nodes.csv")[0])
    assert table["name"].to_pylist() == NAMES
    agrees(table.to_pylist(), expected)


def test_json_is_a_summary(command, expected, tmp_path):
    done = predict(*command, "--json", "--out", tmp_path / "nodes.csv")
    found = json.loads(done.stdout)
    assert (found["method"], found["samples"]) == ("sampled", expected.samples)
    assert f"{found['method']}: {found['reason']}" == expected.method
    assert (found["nodes"], found["outputs"], found["notes"]) == (NODES, CLASSES, [])
    assert found["file"] == str(tmp_path / "nodes.csv")
    assert found["seconds"] > 0
    assert found["mean_variance"]["total"] == pytest.approx(float(expected.total.sum(1).mean()))
    whole = float(expected.total.sum())
    wanted = {part: float(var.sum()) / whole for part, var in expected.by_source.items()}
    assert found["shares"] == pytest.approx(wanted, rel=1e-5)


def test_without_a_file_the_least_trusted_nodes_are_shown(command, expected):
    done = predict(*command, "--top", 4)
    assert done.exit_code == 0, done.output
    assert "4 least trusted of 12 nodes" in done.stdout
    order = expected.mean.amax(1).argsort()[:4].tolist()
    lines = done.stdout.split("main cause \n")[1].splitlines()[1:5]
    assert [line[1:7] for line in lines] == [NAMES[node] for node in order]
    label = expected.mean.argmax(1)
    for line, node in zip(lines, order, strict=True):
        mean, std = expected.mean[node, label[node]], expected.std[node, label[node]]
        assert f" class {label[node]}" in line
        assert f" {mean:.3g} ± {std:.2g} " in line
    assert "remedy if the cause is the network itself: train on more nodes like it" in done.stdout
    assert "\x1b" not in done.stdout  # no colour where nobody watches
    # What the user's own code prints stays out of the results.
    assert done.stderr.startswith("imported\npredict: 204 of 204, ")
    assert done.stderr.count("\n") == 2


def test_intervals_are_those_of_the_library(command, expected, tmp_path):
    done = predict(*command, "--interval", "0.8", "--out", tmp_path / "nodes.csv")
    assert (
        "note: intervals cover noise and dropout, not errors of the network itself" in done.stdout
    )
    rows, (low, high) = rows_of(tmp_path / "nodes.csv"), expected.interval(0.8)
    for c in range(CLASSES):
        assert [float(row[f"low_{c}"]) for row in rows] == pytest.approx(low[:, c].tolist())
        assert [float(row[f"high_{c}"]) for row in rows] == pytest.approx(high[:, c].tolist())
    shown = predict(*command, "--interval", "0.8", "--top", 1).stdout
    node = int(expected.trust.argmin())
    label = expected.mean[node].argmax()
    assert "80% interval" in shown
    assert f"{low[node, label]:.3g} to {high[node, label]:.3g}" in shown


@pytest.mark.parametrize("share", ["0", "90", "nan"])
def test_a_share_that_is_none_is_refused(explained, command, share):
    said = explained("predict", *command, "--interval", share)
    assert "--interval" in said
    assert "predict: " not in said  # before any work


def test_names_do_not_command_the_terminal(command):
    done = predict(*command, "--top", NODES)
    assert "two lines" in done.stdout
    assert "[red]ß" in done.stdout


@pytest.mark.parametrize("chosen", ["node 2,node 0", "mask", "file"])
def test_nodes_by_name_mask_or_file(command, networks, chosen, graph_file, tmp_path):
    nodes, graph = [2, 0], small_graph(x_var=0.02, edge_prob=torch.full((30,), 0.8))
    if chosen == "mask":
        graph.few_mask = torch.arange(NODES) % 5 == 1
        torch.save(graph, graph_file)
        chosen, nodes = "few", [1, 6, 11]
    elif chosen == "file":
        chosen = tmp_path / "wanted.txt"
        chosen.write_text("node 2\n\nnode 0\n", encoding="utf-8")
    done = predict(*command, "--nodes", chosen, "--out", tmp_path / "some.csv")
    assert done.exit_code == 0, done.output
    rows = rows_of(tmp_path / "some.csv")
    assert [int(row["node"]) for row in rows] == nodes
    asked = {"samples": 6, "seed": 3, "links": "bernoulli"}
    agrees(rows, vg.predict(network(networks), graph, nodes=nodes, **asked))


@pytest.mark.parametrize("kind", ["weights.safetensors", "checkpoint.pt"])
def test_other_forms_of_weights(command, weights, expected, kind, tmp_path):
    state = torch.load(weights, weights_only=True)
    if kind.endswith(".safetensors"):
        save_file(state, tmp_path / kind)
    else:
        torch.save({"model_state_dict": state, "epoch": 4}, tmp_path / kind)
    command[command.index(weights)] = tmp_path / kind
    assert predict(*command, "--out", tmp_path / "nodes.csv").exit_code == 0
    agrees(rows_of(tmp_path / "nodes.csv"), expected)


def test_a_class_of_torch_geometric_with_arguments_and_an_npz(tmp_path):
    graph, sizes = small_graph(), {"in_channels": 5, "hidden_channels": 4, "num_layers": 2}
    sizes |= {"out_channels": 3, "dropout": 0.5}
    torch.manual_seed(0)
    model = GraphSAGE(**sizes).eval()
    torch.save(model.state_dict(), tmp_path / "sage.pt")
    np.savez(
        tmp_path / "graph.npz",
        x=graph.x.double().numpy(),  # numpy's own kind; the network's is float32
        edge_index=graph.edge_index.numpy().astype(np.int32),
        node_names=np.array(NAMES),
    )
    done = predict(
        *("torch_geometric.nn:GraphSAGE", tmp_path / "graph.npz"),
        *("--arguments", json.dumps(sizes), "--weights", tmp_path / "sage.pt"),
        *("--noise-var", 0.05, "--method", "diagonal", "--samples", 4),
        *("--out", tmp_path / "nodes.csv"),
    )
    assert done.exit_code == 0, done.output
    graph.x_var = 0.05
    rows = rows_of(tmp_path / "nodes.csv")
    agrees(rows, vg.predict(model, graph, method="diagonal", samples=4))
    assert [row["name"] for row in rows] == NAMES


def test_tables_of_nodes_and_links_are_a_graph(networks, weights, tmp_path):
    graph = small_graph(x_var=torch.full((12, 1), 0.25).repeat(1, 5))
    names = "abcdefghijkl"
    header = ",".join(["node", *(f"f{n},f{n}_std" for n in range(5))])
    rows = [
        ",".join([name, *(f"{value:.9g},0.5" for value in row)])
        for name, row in zip(names, graph.x.tolist(), strict=True)
    ]
    pairs = sorted({(u, v) for u, v in graph.edge_index.t().tolist() if u < v})
    links = [f"{names[u]},{names[v]}" for u, v in pairs]
    (tmp_path / "nodes.csv").write_text("\n".join([header, *rows]))
    (tmp_path / "links.csv").write_text("\n".join(["from,to", *links]))
    done = predict(
        *(f"{networks}:Net", tmp_path, "--weights", weights, "--samples", 4),
        *("--method", "diagonal", "--out", tmp_path / "answers.csv"),
    )
    assert done.exit_code == 0, done.output
    low, high = zip(*pairs, strict=True)
    graph.edge_index = torch.tensor([[*low, *high], [*high, *low]])
    model = network(networks, "Net")
    model.load_state_dict(torch.load(weights))
    answers = rows_of(tmp_path / "answers.csv")
    agrees(answers, vg.predict(model, graph, method="diagonal", samples=4))
    assert [row["name"] for row in answers] == list(names)


def test_an_npz_may_say_how_noisy_its_links_are(tmp_path):
    graph, edges = small_graph(), 30
    fields = {"edge_attr": torch.rand(edges, 2), "edge_weight": torch.rand(edges)}
    noise = {f"{name}_var": np.array(0.5) for name in (*fields, "pos")}
    arrays = {name: value.numpy() for name, value in fields.items()}
    ends = graph.edge_index.numpy()
    path = tmp_path / "graph.npz"
    np.savez(path, x=graph.x, edge_index=ends, pos=np.zeros((12, 3)), **arrays, **noise)
    read = read_graph(str(path))
    assert {name: float(read[name]) for name in noise} == dict.fromkeys(noise, 0.5)


def test_regression_has_a_mean_and_an_error_bar(networks, graph_file, tmp_path):
    torch.save(network(networks, "value").state_dict(), tmp_path / "value.pt")
    done = predict(
        *(f"{networks}:value", graph_file, "--weights", tmp_path / "value.pt"),
        *("--task", "regression", "--sources", "features,links", "--links", "bernoulli"),
        *("--out", tmp_path / "v.csv"),
    )
    assert done.exit_code == 0, done.output
    graph = small_graph(x_var=0.02, edge_prob=torch.full((30,), 0.8))
    wanted = vg.predict(
        network(networks, "value"),
        graph,
        task="regression",
        sources=("features", "links"),
        links="bernoulli",
    )
    rows = rows_of(tmp_path / "v.csv")
    assert list(rows[0]) == ["node", "name", "mean", "std", "plain", "trust", "total", *PARTS]
    for name, values in {"mean": wanted.mean, "std": wanted.total.sqrt()}.items():
        assert [float(row[name]) for row in rows] == pytest.approx(values.flatten().tolist())
    assert {float(row["weights"]) for row in rows} == {0.0}


def test_yes_or_no_has_a_class_and_how_sure_it_is(networks, graph_file, tmp_path):
    torch.save(network(networks, "value").state_dict(), tmp_path / "value.pt")
    done = predict(
        *(f"{networks}:value", graph_file, "--weights", tmp_path / "value.pt"),
        *("--task", "binary", "--sources", "features", "--out", tmp_path / "v.csv"),
    )
    assert done.exit_code == 0, done.output
    graph = small_graph(x_var=0.02, edge_prob=torch.full((30,), 0.8))
    wanted = vg.predict(
        network(networks, "value"), graph, task="binary", sources=("features",)
    ).mean[:, 0]
    rows = rows_of(tmp_path / "v.csv")
    sure = torch.maximum(wanted, 1 - wanted)
    assert [int(row["predicted"]) for row in rows] == (wanted > 0.5).long().tolist()
    assert [float(row["confidence"]) for row in rows] == pytest.approx(sure.tolist())


def test_a_network_with_its_own_way_of_calling_is_sampled(networks, graph_file, tmp_path):
    done = predict(
        *(f"{networks}:attention", graph_file, "--forward", f"{networks}:attend"),
        *("--samples", 20, "--json", "--out", tmp_path / "nodes.csv"),
    )
    found = json.loads(done.stdout)
    assert found["method"] == "sampled"
    assert found["reason"].startswith("behind uncertain links class probabilities have few values")
    assert all(float(row["mean_se_0"]) > 0 for row in rows_of(tmp_path / "nodes.csv"))


def test_what_a_reader_must_know_is_noted(networks, graph_file, tmp_path):
    done = predict(f"{networks}:Net", graph_file, "--json", "--seed", 5)
    assert json.loads(done.stdout)["notes"] == [
        "no --weights: the weights are as the class starts them, drawn by seed 5"
    ]
    again = predict(f"{networks}:Net", graph_file, "--json", "--seed", 5)
    figures = [json.loads(each.stdout)["mean_variance"] for each in (done, again)]
    assert figures[0] == figures[1]
    done = predict(f"{networks}:certain", graph_file, "--top", 0, "--links", "bernoulli")
    assert "note: the network has no dropout" in done.stdout
    assert "--dropout 0.1" in done.stdout


def test_the_folder_of_a_run_needs_no_graph(tmp_path):
    folder = tmp_path / "run"
    study.run("cora", out=folder, samples=2, noise=(5,), epochs=1, seed=1)
    done = predict(folder, "--out", tmp_path / "nodes.csv", "--json")
    assert done.exit_code == 0, done.output
    assert json.loads(done.stdout)["title"] == "run run on cora"
    stored = np.load(folder / "predictions-5.npz")
    rows = rows_of(tmp_path / "nodes.csv")
    for name in ("mean", "features", "weights"):
        found = np.array([[float(row[f"{name}_{c}"]) for c in range(7)] for row in rows])
        assert found == pytest.approx(stored[name], rel=1e-4, abs=1e-9)
    told = predict(folder, "--noise-var", 0, "--samples", 0, "--top", 0, "--json")
    assert json.loads(told.stdout)["mean_variance"]["total"] == 0
    assert json.loads(told.stdout)["shares"] is None
    assert "is a run" in mistake(predict(folder, "--weights", "w.pt").stderr)
    names = vg.load("cora").class_names
    assert all(row["predicted_name"] == names[int(row["predicted"])] for row in rows)


def mistake(said):
    """The error itself, below what the user's own file printed."""
    lines = said.removeprefix("imported\n")
    assert lines.startswith("error: ")
    assert "remedy: " in lines
    assert "Traceback" not in lines
    return lines


class Spy:
    """Its pickle creates a folder when it is read with code."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return (os.mkdir, (str(self.path),))


@pytest.mark.parametrize("save", [torch.save, lambda value, path: path.write_bytes(value)])
@pytest.mark.parametrize("what", ["weights", "graph"])
def test_code_in_a_file_is_never_run(command, weights, graph_file, tmp_path, save, what):
    target = {"weights": weights, "graph": graph_file}[what]
    held = {"x": Spy(tmp_path / "created")}
    save(held if save is torch.save else pickle.dumps(held, protocol=2), target)
    done = predict(*command)
    assert done.exit_code == 2
    assert str(target) in mistake(done.stderr)
    assert not (tmp_path / "created").exists()


def test_ctrl_c_leaves_nothing_behind(command, monkeypatch, tmp_path):
    def stop(*args, **options):
        raise KeyboardInterrupt

    monkeypatch.setattr(import_module("varigraph.studies.own_model.answers"), "answered", stop)
    done = predict(*command, "--out", tmp_path / "nodes.csv")
    assert done.exit_code == 130
    assert "nothing was written" in done.stderr
    assert not (tmp_path / "nodes.csv").exists()


@pytest.mark.parametrize(
    ("change", "culprit"),
    [
        ({0: "{networks}:Nett"}, "has no 'Nett'"),
        ({0: "{networks}:broken"}, "KeyError: 'weights' (networks.py, line "),
        ({0: "{networks}:number"}, "returned a int"),
        ({0: "{networks}"}, "names no object"),
        ({0: "weights.pt"}, "--weights weights.pt"),
        ({0: "no.such.module:Net"}, "No module named 'no'"),
        ({0: "nowhere.py:Net"}, "there is no file nowhere.py"),
        ({1: "coral"}, "coral is no file, folder or data set"),
        ({1: "{networks}"}, "graphs are not read from .py files"),
        ({3: "none.pt"}, "none.pt: there is no such file"),
        ({3: "none.safetensors"}, "none.safetensors: there is no such file"),
        ({3: "{networks}"}, "networks.py: "),
        ({5: "-1"}, "--samples -1 is not from 0"),
        (["--arguments", "{"], "--arguments is not JSON"),
        (["--arguments", "[1]"], "--arguments is a list"),
        (["--arguments", '{"size": 3}'], "unexpected keyword argument 'size'"),
        (["--arguments", '{"width": 9}'], "first.lin_l.weight of shape (4, 5)"),
        (["--out", "nodes.txt"], "nodes.txt ends in neither .csv nor .parquet"),
        (["--out", "no/such/nodes.csv"], "there is no folder no/such"),
        (["--method", "guess"], "--method 'guess' is unknown"),
        (["--task", "guess"], "--task 'guess' is unknown"),
        (["--links", "guess"], "guess"),
        (["--sources", "guess"], "guess"),
        (["--memory", "much"], "--memory 'much'"),
        (["--nodes", "node 99"], "no node is called 'node 99'"),
        (["--noise-var", "0.1"], "x_var of its own"),
        (["--noise-var", "-1"], "--noise-var is -1"),
        (["--noise", "5"], "noisy already"),
        (["--noise", "5", "--noise-var", "1"], "both given"),
        (["--seed", "-1"], "--seed -1 is not from 0"),
        (["--seed", str(2**64)], "--seed 18446744073709551616 is not"),
        (["--forward", "{networks}:broken"], "forward cannot be called with (model, x, data)"),
    ],
)
def test_mistakes_are_explained(command, networks, change, culprit, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    if isinstance(change, dict):
        for place, value in change.items():
            command[place] = value.format(networks=networks)
    else:
        command += [text.replace("{networks}", str(networks)) for text in change]
    done = predict(*command)
    assert done.exit_code == 2, done.output
    assert done.stdout == ""
    assert culprit in mistake(done.stderr)


def test_weights_that_are_missing_or_left_over_are_named(command, weights):
    state = torch.load(weights, weights_only=True)
    state["third.bias"] = state.pop("second.lin_l.bias")
    torch.save(state, weights)
    said = mistake(predict(*command).stderr)
    assert "lacks second.lin_l.bias" in said
    assert "third.bias, unknown to Net" in said


def test_a_pickled_network_is_refused_with_the_way_to_save_it(command, weights):
    torch.save(torch.nn.Linear(2, 2), weights)
    said = mistake(predict(*command).stderr)
    assert "torch.nn.modules.linear.Linear" in said
    assert "torch.save(model.state_dict(), 'weights.pt')" in said


def test_a_network_that_does_not_fit_the_graph_is_told_where(networks, graph_file):
    done = predict(f"{networks}:Net", graph_file, "--arguments", '{"features": 9}')
    assert done.exit_code == 2
    said = mistake(done.stderr)
    assert "Net takes 9 features, graph.x has 5: RuntimeError" in said
    assert "(networks.py, line 17)" in said


def test_a_graph_or_a_run_is_needed(explained, networks, tmp_path):
    done = predict(f"{networks}:finished")
    assert "there is no graph" in mistake(done.stderr)
    assert "holds no config.json" in explained("predict", tmp_path)


def test_what_is_not_installed_is_named(explained, command, monkeypatch, tmp_path):
    table = import_module("varigraph.prediction.table")
    monkeypatch.setattr(table, "find_spec", lambda name: None)
    said = explained("predict", *command, "--out", tmp_path / "nodes.parquet")
    assert "pip install pyarrow" in said
    monkeypatch.setitem(sys.modules, "safetensors.torch", None)
    command[3] = tmp_path / "weights.safetensors"
    assert "pip install safetensors" in mistake(predict(*command).stderr)
