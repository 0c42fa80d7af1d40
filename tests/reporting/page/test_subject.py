from dataclasses import replace

import pytest
import torch

from reporting.page.made_up import made_up, regression
from varigraph.errors import GraphError
from varigraph.reporting.page.subject import PageSubject


def test_test_nodes_with_a_label_are_scored():
    prediction, graph = made_up()
    graph.y[:4] = -1
    found = PageSubject.of(prediction, graph)
    assert found.scored.nonzero().flatten().tolist() == list(range(4, 40, 2))
    assert found.scored_as == "18 test nodes"
    wrong = prediction.mean.argmax(1) != graph.y
    assert found.wrong.tolist() == wrong.tolist()
    answer = prediction.mean.argmax(1)
    assert torch.allclose(found.variance, prediction.total[range(40), answer].double())


def test_without_a_mask_all_labelled_nodes_are_scored():
    prediction, graph = made_up()
    del graph.test_mask
    assert int(PageSubject.of(prediction, graph).scored.sum()) == 40


def test_without_labels_none_are():
    prediction, graph = made_up()
    del graph.y
    found = PageSubject.of(prediction, graph)
    assert found.truth is None
    assert found.wrong is None
    assert not found.scored.any()


def test_values_that_are_not_known_are_not_scored():
    found = PageSubject.of(*regression())
    assert found.wrong is None
    assert found.scored.tolist() == [False] + [True] * 29


def test_classes_are_called_by_their_numbers_where_they_have_no_names():
    prediction, graph = made_up()
    del graph.class_names, graph.node_names
    found = PageSubject.of(prediction, graph)
    assert found.output_names == ["class 0", "class 1", "class 2"]
    assert found.node_names is None


@pytest.mark.parametrize(
    ("field", "value", "culprit"),
    [
        ("y", torch.zeros(40), "y is torch.float32"),
        ("y", torch.full((40,), 3), "y is torch.int64"),
        ("y", torch.zeros(39).long(), "y is torch.int64 of shape"),
        ("class_names", ["one"], "class_names has 1 entries for 3"),
        ("node_names", ["one"], "node_names has 1 entries for 40"),
    ],
)
def test_what_does_not_fit_is_named(field, value, culprit):
    prediction, graph = made_up()
    graph[field] = value
    with pytest.raises(GraphError, match=culprit):
        PageSubject.of(prediction, graph)


def test_a_prediction_of_some_nodes_is_refused():
    prediction, graph = made_up()
    fewer = replace(prediction, mean=prediction.mean[:7])
    with pytest.raises(GraphError, match=r"shape \(7, 3\), the graph 40 nodes"):
        PageSubject.of(fewer, graph)


def test_numbers_that_are_not_finite_are_refused():
    prediction, graph = made_up()
    prediction.mean[3, 1] = torch.nan
    with pytest.raises(GraphError, match="not finite"):
        PageSubject.of(prediction, graph)
