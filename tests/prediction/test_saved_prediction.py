"""Predictions are kept bit by bit, and what is not one is told."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from torch_geometric.data import Data
from torch_geometric.nn import GCN

import varigraph as vg
from trust.made_up import prediction, values
from varigraph.errors import FileError, OptionError

NODES = 60


@pytest.fixture(scope="module")
def asked():
    torch.manual_seed(0)
    ends = torch.randint(0, NODES, (2, 240))
    graph = Data(x=torch.rand(NODES, 5), edge_index=ends, x_var=0.02)
    graph.node_names = [f"näme {node}" for node in range(NODES)]
    graph.class_names = ["a", "b", "c"]
    graph.train_mask = torch.arange(NODES) < 10
    graph.y = torch.randint(0, 3, (NODES,))
    return GCN(5, 8, 2, 3, dropout=0.5), graph


@pytest.fixture(scope="module")
def predictions(asked):
    model, graph = asked
    whole, (mean, var, y) = vg.predict(model, graph), values(300)
    plain = prediction(mean.float(), var.float(), "regression")
    return {
        "as predicted": whole,
        "calibrated": vg.calibrate(whole, graph.y, nodes=range(10, NODES)).apply(whole),
        "some nodes": vg.predict(model, graph, nodes=[3, 1]),
        "sampled": vg.predict(model, graph, method="sampled", samples=20),
        "values": vg.calibrate(plain, y, nodes=range(200)).apply(plain),
    }


def numbers(pred):
    """Everything that is told, with every bit of it."""
    told = {
        **{name: getattr(pred, name) for name in ("mean", "total", "std", "trust", "plain")},
        **{f"by {part}": var for part, var in pred.by_source.items()},
        **{"logits": pred.logits.mean, "logit variances": pred.logits.var},
        **pred.interval(0.9)._asdict(),
    }
    if pred.std_error is not None:
        told |= {"standard error": pred.std_error.total, "of the mean": pred.std_error.mean}
    if pred.calibrator is not None and pred.task == "classification":
        told["sets"] = pred.class_sets(0.9).members
    texts = [str(pred), str(pred.least_trusted(5)), repr(pred.calibrator), pred.rows.names]
    return told, texts


FRESH = """
import sys, torch, varigraph as vg
sys.path.insert(0, {tests!r})
from prediction.test_saved_prediction import numbers
told = {{name: numbers(vg.load_prediction(path)) for name, path in {paths!r}.items()}}
torch.save(told, {out!r})
"""


@pytest.fixture(scope="module")
def told(predictions, tmp_path_factory):
    """What a fresh process says of each."""
    folder = tmp_path_factory.mktemp("kept")
    paths = {
        name: str(each.save(folder / f"{name}.safetensors")) for name, each in predictions.items()
    }
    out = folder / "told.pt"
    code = FRESH.format(tests=str(Path(__file__).parents[1]), paths=paths, out=str(out))
    subprocess.run([sys.executable, "-W", "ignore", "-c", code], check=True, timeout=120)
    return torch.load(out)


@pytest.mark.parametrize("name", ["as predicted", "calibrated", "some nodes", "sampled", "values"])
def test_a_fresh_process_gives_the_same_answer_bit_by_bit(name, predictions, told):
    wanted, wanted_texts = numbers(predictions[name])
    found, texts = told[name]
    assert texts == wanted_texts
    assert found.keys() == wanted.keys()
    for part, each in wanted.items():
        if each is None:
            assert found[part] is None
        else:
            assert found[part].dtype == each.dtype, part
            assert torch.equal(found[part], each), part


def test_rows_are_kept(asked, tmp_path):
    model, graph = asked
    pred = vg.predict(model, graph, nodes=["näme 7", "näme 2"])
    again = vg.load_prediction(pred.save(tmp_path / "some.safetensors"))
    assert [each.name for each in again.least_trusted(2)] == [
        each.name for each in pred.least_trusted(2)
    ]
    whole = vg.predict(model, graph)
    again = vg.load_prediction(whole.save(tmp_path / "all.safetensors"))
    with pytest.raises(OptionError, match="are in train_mask"):
        vg.calibrate(again, graph.y, nodes=range(20))
    by_both = [vg.calibrate(each, graph.y, nodes=range(10, NODES)) for each in (whole, again)]
    assert torch.equal(by_both[0].learned["scale"], by_both[1].learned["scale"])


@pytest.fixture
def whole(asked, tmp_path):
    return vg.predict(*asked).save(tmp_path / "whole.safetensors")


def test_every_damaged_byte_is_noticed(whole):
    content = whole.read_bytes()
    for place in range(0, len(content), 97):
        changed = bytearray(content)
        changed[place] ^= 1 << place % 7
        whole.write_bytes(bytes(changed))
        with pytest.raises(FileError) as error:
            vg.load_prediction(whole)
        assert str(whole) in str(error.value)


@pytest.mark.parametrize("kept_bytes", [0, 4, 8, 100, 2000, -1])
def test_a_file_that_is_cut_off(whole, kept_bytes):
    whole.write_bytes(whole.read_bytes()[:kept_bytes])
    with pytest.raises(FileError, match=r"damaged|cut off"):
        vg.load_prediction(whole)


def remade(path, **marks):
    """The same tensors under other marks."""
    from safetensors.torch import load, save

    content = path.read_bytes()
    head = json.loads(content[8 : 8 + int.from_bytes(content[:8], "little")])["__metadata__"]
    path.write_bytes(save(load(content), {**head, **marks}))


@pytest.mark.parametrize(
    ("marks", "message"),
    [
        ({"format": "99"}, r"has format 99, and this version reads 1[\s\S]*the version that wrote"),
        ({"what": "weights"}, "does not hold a prediction"),
        ({"about": "{}"}, "is damaged"),
        ({"about": "["}, "is damaged"),
        ({"digest": "0"}, "not those that were saved"),
    ],
)
def test_other_files_are_told(whole, marks, message):
    remade(whole, **marks)
    with pytest.raises(FileError, match=message):
        vg.load_prediction(whole)


def test_weights_are_no_prediction(tmp_path):
    from safetensors.torch import save_file

    save_file({"weight": torch.ones(3)}, tmp_path / "weights.safetensors")
    with pytest.raises(FileError, match="does not hold a prediction"):
        vg.load_prediction(tmp_path / "weights.safetensors")
    with pytest.raises(FileError, match="no such file"):
        vg.load_prediction(tmp_path / "none")
    with pytest.raises(FileError, match="there is no folder"):
        prediction(torch.rand(3, 2)).save(tmp_path / "none" / "a.safetensors")


def test_safetensors_is_optional(whole, monkeypatch):
    monkeypatch.setitem(sys.modules, "safetensors.torch", None)
    with pytest.raises(OptionError, match=r"not installed[\s\S]*pip install safetensors"):
        vg.load_prediction(whole)


def test_a_source_that_is_not_there_is_named(whole, monkeypatch):
    monkeypatch.setattr("varigraph.prediction.saved_prediction.about_network", lambda: ())
    with pytest.raises(FileError, match=r"'weights', a source that is not registered"):
        vg.load_prediction(whole)
