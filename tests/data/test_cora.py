import hashlib
from importlib.resources import files
from pathlib import Path

import numpy as np
import torch

from varigraph.data import graphs as module
from varigraph.data.graphs import CORA_CLASSES, cora

STORED = files("varigraph.data") / "cora.npz"
DOCS = Path(__file__).parents[2] / "docs" / "data.md"


def test_the_file_is_the_one_that_was_recorded():
    assert hashlib.sha256(STORED.read_bytes()).hexdigest() == module.CORA_SHA256


def test_the_documentation_names_origin_licence_and_checksum():
    text = DOCS.read_text(encoding="utf-8")
    assert module.CORA_SHA256 in text
    assert module.CORA_LICENSE in text
    assert "graphdatascience 2.2" in module.CORA_ORIGIN
    assert "graphdatascience 2.2" in text


def test_the_licence_of_the_data_ships_with_it():
    text = (files("varigraph.data") / "cora.LICENSE.txt").read_text(encoding="utf-8")
    assert "Apache License" in text
    assert "Version 2.0" in text


def test_the_file_is_small_and_holds_no_pickles():
    with STORED.open("rb") as stream, np.load(stream, allow_pickle=False) as stored:
        assert {stored[name].dtype.kind for name in stored.files} == {"u"}
        assert stored["links"].shape == (2, 5278)
    assert len(STORED.read_bytes()) < 150_000


def test_words_are_binary_and_as_many_as_in_planetoid():
    x = cora().x
    assert x.shape == (2708, 1433)
    assert x.dtype == torch.float32
    assert x.unique().tolist() == [0, 1]
    assert x.sum() == 49216
    assert x.sum(dim=1).min() == 1  # every paper has a word


def test_links_run_both_ways_once_and_never_to_oneself():
    source, target = cora().edge_index
    pairs = set(zip(source.tolist(), target.tolist(), strict=True))
    assert len(pairs) == source.numel() == 10556
    assert {(b, a) for a, b in pairs} == pairs
    assert (source != target).all()


def test_classes_are_in_planetoids_order():
    graph = cora()
    assert graph.y.bincount().tolist() == [351, 217, 418, 818, 426, 298, 180]
    assert graph.class_names == list(CORA_CLASSES)
    assert graph.class_names[3] == "Neural_Networks"


def test_names_of_one_graph_are_not_those_of_the_next():
    cora().class_names.clear()
    assert len(cora().class_names) == 7
