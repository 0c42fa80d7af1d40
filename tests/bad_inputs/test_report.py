"""Mistakes in calls of ``vg.report``: each is found before the page is made."""

import math
from dataclasses import replace
from importlib import import_module

import numpy as np
import pytest
import torch

import varigraph as vg
from bad_inputs.cases import refusal
from reporting.page.made_up import content_of, made_up, regression
from varigraph.errors import FileError, GraphError, OptionError

HALF = "half a character: \ud800"
NODES, CLASSES = 40, 3


@pytest.fixture
def report(tmp_path):
    """Writes a page about a prediction and a graph with nothing wrong but what is changed."""
    plain, graph = made_up(NODES, CLASSES)

    def write(prediction=plain, fields=None, **options):
        for name, value in (fields or {}).items():
            graph[name] = value
        return vg.report(prediction, graph, **{"path": tmp_path / "page.html", **options})

    return write


BAD_OPTIONS = {
    "title": [None, 3, b"title", ["title"], HALF],
    "levels": [None, 3, "abc", [1], [None], {"noise": 1}],
    "about": [3, "abc", [1], [("Seed", 1)], {"Seed": HALF}],
    "warnings": [None, 3, "abc", [1], [HALF]],
    "audit": [3, "abc", {}],
    "explain": [None, 1.5, "all", -1, True, [3]],
    "links": [None, 3, "typo", []],
    "path": [None, 3, b"page.html", ["page.html"], "~nobody-of-that-name/page.html"],
}


@pytest.mark.parametrize(
    ("name", "value"),
    [(name, value) for name, values in BAD_OPTIONS.items() for value in values],
)
def test_options_that_make_no_sense(report, tmp_path, name, value):
    error = refusal(lambda: report(**{name: value}))
    assert isinstance(error, OptionError)
    assert error.problem.startswith(name)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("path", ["", "a\0b.html", "x" * 300, "absent/page.html"])
def test_places_where_no_file_can_be(report, path):
    assert isinstance(refusal(lambda: report(path=path)), FileError)


@pytest.mark.parametrize("prediction", [None, {}, 3, "prediction", torch.rand(NODES, CLASSES)])
def test_what_is_no_prediction(report, prediction):
    error = refusal(lambda: report(prediction))
    assert isinstance(error, OptionError)
    assert "the prediction is a" in error.problem


@pytest.mark.parametrize(
    ("change", "culprit"),
    [
        (lambda found: made_up(5, CLASSES)[0], r"shape \(5, 3\), the graph 40 nodes"),
        (lambda found: replace(found, by_source={}), "features"),
        (lambda found: replace(found, mean=[None]), "mean"),
        (lambda found: replace(found, mean=found.mean.to("meta")), "mean"),
        (lambda found: replace(found, by_source=cut(found.by_source)), "variance by features"),
    ],
)
def test_predictions_of_something_else(report, change, culprit):
    found = made_up(NODES, CLASSES)[0]
    with pytest.raises(GraphError, match=culprit):
        report(change(found))


def cut(by_source):
    return {part: var[:7] for part, var in by_source.items()}


def labels(dtype):
    return torch.ones(NODES).to(dtype)


BAD_TRUTHS = {
    "too few": labels(torch.long)[:7],
    "floats": torch.rand(NODES),
    "NaN": torch.full((NODES,), math.nan),
    "complex": labels(torch.complex64),
    "truth values": labels(torch.bool),
    "too high": torch.full((NODES,), CLASSES),
    "on meta": labels(torch.long).to("meta"),
    "sparse": labels(torch.long).to_sparse(),
    "text": "abc",
    "texts": ["a"] * NODES,
    "a number": 3,
}


@pytest.mark.parametrize("y", BAD_TRUTHS.values(), ids=BAD_TRUTHS)
def test_truths_that_cannot_be_right(report, y):
    error = refusal(lambda: report(fields={"y": y}))
    assert isinstance(error, GraphError)
    assert error.problem.startswith("y is")


@pytest.mark.parametrize("y", ["abc", torch.ones(30, 2).to(torch.complex64), torch.rand(7), [None]])
def test_values_that_cannot_be_right(tmp_path, y):
    prediction, graph = regression(30, 2)
    graph.y = y
    error = refusal(lambda: vg.report(prediction, graph, path=tmp_path / "page.html"))
    assert isinstance(error, GraphError)


BAD_MASKS = {
    "too short": labels(torch.bool)[:7],
    "floats": torch.rand(NODES),
    "integers": labels(torch.long),
    "bytes": labels(torch.uint8),
    "node numbers": torch.arange(5),
    "several": labels(torch.bool)[:, None].repeat(1, 10),
    "on meta": labels(torch.bool).to("meta"),
    "text": "abc",
    "a number": 3,
}


@pytest.mark.parametrize("name", ["train_mask", "val_mask", "test_mask"])
@pytest.mark.parametrize("mask", BAD_MASKS.values(), ids=BAD_MASKS)
def test_masks_that_cannot_be_right(report, name, mask):
    error = refusal(lambda: report(fields={name: mask}))
    assert isinstance(error, GraphError)
    assert error.problem.startswith(f"{name} is")


@pytest.mark.parametrize("field", ["node_names", "class_names"])
@pytest.mark.parametrize("names", [3, "abc", ["one"], [HALF]])
def test_names_that_are_none(report, field, names):
    count = NODES if field == "node_names" else CLASSES
    given = names * count if names == [HALF] else names
    assert refusal(lambda: report(fields={field: given})).problem.startswith(field)


def test_lists_and_arrays_are_as_good_as_tensors(report):
    wanted = content_of(report())
    truth, test = made_up(NODES, CLASSES)[1].y, made_up(NODES, CLASSES)[1].test_mask
    for form in (torch.Tensor.numpy, torch.Tensor.tolist):
        given = {"y": form(truth), "test_mask": form(test)}
        assert content_of(report(fields=given)) == wanted
    assert content_of(report(fields={"y": truth.to(torch.uint16)})) == wanted
    assert content_of(report(explain=np.int64(3))) == wanted


def test_mistakes_show_before_the_work(report, monkeypatch):
    module = import_module("varigraph.reporting.page.report")  # its function has the same name
    monkeypatch.setattr(module, "headline", lambda subject: pytest.fail("the work has begun"))
    for options in ({"title": 3}, {"levels": [1]}, {"about": 3}, {"fields": {"val_mask": 3}}):
        refusal(lambda given=options: report(**given))
