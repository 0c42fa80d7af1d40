import re
import sys
from dataclasses import replace

import networkx
import numpy as np
import pytest
import torch
from sklearn.metrics import accuracy_score, roc_auc_score

import varigraph as vg
from reporting.page.made_up import EVIL, content_of, made_up, regression
from varigraph.errors import FileError, GraphError, OptionError
from varigraph.moments import Gaussian
from varigraph.prediction import Prediction


@pytest.fixture
def page(tmp_path):
    return tmp_path / "page.html"


def cards(content):
    return {card["label"]: card for card in content["headline"]["cards"]}


def test_the_headline_agrees_with_scikit_learn(page):
    prediction, graph = made_up(400)
    prediction = replace(prediction, plain=prediction.mean.roll(3, 0))
    content = content_of(vg.report(prediction, graph, path=page))
    test = graph.test_mask
    best, labels = prediction.mean.argmax(1)[test], graph.y[test]
    found = cards(content)
    assert found["Right answers"]["value"] == f"{100 * accuracy_score(labels, best):.1f} %"
    ours, plain = (
        roc_auc_score(mean[test].argmax(1) != labels, -mean[test].max(1).values)
        for mean in (prediction.mean, prediction.plain)
    )
    assert found["Errors found"]["value"] == f"{ours:.3f}"
    assert found["Errors found"]["hint"].endswith(f"{plain:.3f}")
    rows, answer = np.arange(400), prediction.mean.argmax(1)
    parts = {p: float(var[rows, answer].mean()) for p, var in prediction.by_source.items()}
    total = sum(parts.values())
    for part, share in content["headline"]["shares"].items():
        assert share == pytest.approx(parts[part] / total, rel=1e-5)


def test_the_charts_count_all_scored_nodes(page):
    prediction, graph = made_up(400)
    figures = content_of(vg.report(prediction, graph, path=page))["figures"]
    wrong = int((prediction.mean.argmax(1) != graph.y)[graph.test_mask].sum())
    assert sum(figures["histogram"]["wrong"]) == wrong
    assert sum(figures["histogram"]["right"]) == 200 - wrong
    assert sum(figures["reliability"]["count"]) == 200
    for curve in figures["risk"].values():
        assert curve["coverage"][-1] == 1
        assert curve["risk"][-1] == pytest.approx(wrong / 200)
    assert figures["noise"] is None


def test_the_table_holds_every_node(page):
    prediction, graph = made_up()
    nodes = content_of(vg.report(prediction, graph, path=page))["nodes"]
    assert np.allclose(np.reshape(nodes["mean"], (40, 3)), prediction.mean, rtol=1e-3)
    assert np.allclose(np.reshape(nodes["std"], (40, 3)), prediction.total.sqrt(), rtol=1e-2)
    rows, answer = np.arange(40), prediction.mean.argmax(1)
    sources = [var[rows, answer] for var in prediction.by_source.values()]
    assert np.allclose(nodes["sources"], torch.stack(sources), rtol=1e-2)
    assert np.allclose(nodes["variance"], prediction.total[rows, answer], rtol=1e-2)
    assert np.allclose(nodes["trust"], prediction.mean.max(1).values, rtol=1e-3)
    less = [int((prediction.trust < trust).sum()) for trust in prediction.trust]
    assert nodes["rank"] == less
    assert nodes["truth"] == graph.y.tolist()
    assert nodes["group"] == [2 if node % 2 == 0 else 0 for node in range(40)]
    assert nodes["names"] == graph.node_names


def test_a_page_is_one_document_that_no_name_can_break(page):
    prediction, graph = made_up()
    vg.report(prediction, graph, path=page, title=EVIL, warnings=[EVIL])
    text = page.read_text(encoding="utf-8")
    assert EVIL not in text
    assert "$" + "{" not in text.split("<style>")[0]
    assert text.count('id="content"') == 1
    assert content_of(page)["outputs"][0] == EVIL
    head = text[: text.index("</head>")]
    assert "default-src 'none'" in head
    assert not re.findall(r'(?:src|href)="(?!data:)', head)


def test_values_get_a_page_of_their_own_figures(page):
    content = content_of(vg.report(*regression(), path=page))
    assert set(cards(content)) >= {"Root mean square error", "Within 90 % intervals"}
    assert content["figures"]["risk"] is None
    assert content["figures"]["histogram"]["wrong"] is None
    assert content["nodes"]["truth"][0] is None
    first = content["figures"]["intervals"][0]
    assert first["mean"] == sorted(first["mean"])
    assert len(first["node"]) == 29
    prediction, graph = regression()
    reach = 1.6448536 * prediction.total[first["node"], 0].sqrt()
    assert np.allclose(first["high"], prediction.mean[first["node"], 0] + reach, rtol=1e-3)
    assert np.allclose(
        first["low"], prediction.mean[first["node"], 0] - reach, rtol=1e-3, atol=1e-3
    )
    assert np.allclose(first["truth"], graph.y[first["node"], 0], rtol=1e-3)


def test_pairs_have_a_page_with_their_names_and_their_truth(page):
    prediction, graph = made_up()
    pairs = torch.tensor([[0, 1, 2], [5, 6, 39]])
    yes = torch.tensor([[0.9], [0.2], [0.6]])
    parts = {part: torch.full_like(yes, 0.01) for part in prediction.by_source}
    linked = Prediction(yes, parts, Gaussian(yes, yes), "made up", 0, "binary")
    graph.edge_label = torch.tensor([1, 0, 0])
    content = content_of(vg.report(linked, graph, path=page, links_to_score=pairs))
    assert content["nodes"]["names"] == ["n0 – n5", "n1 – n6", f"n2 – {EVIL}"]
    assert content["outputs"] == ["no", "yes"]
    assert content["nodes"]["truth"] == [1, 0, 0]
    assert content["nodes"]["answer"] == [1, 0, 1]
    assert cards(content)["Right answers"]["value"] == "66.7 %"
    assert cards(content)["Pairs"]["value"] == "3"
    with pytest.raises(GraphError, match="links_to_score"):
        vg.report(linked, graph, path=page, links_to_score=pairs[:, :2])


def test_without_labels_and_without_variance_there_is_still_a_page(page):
    prediction, graph = made_up()
    for var in prediction.by_source.values():
        var.zero_()
    del graph.y
    content = content_of(vg.report(prediction, graph, path=page))
    assert set(cards(content)) == {"Nodes", "Typical error bar"}
    assert set(content["headline"]["shares"].values()) == {0}
    assert not any(content["figures"].values())


def test_how_it_was_made_is_told(page, levels):
    prediction, graph = made_up()
    told = {"Seed": 7, "Links": None}
    content = content_of(vg.report(prediction, graph, path=page, about=told, levels=levels))
    lines = dict(content["making"]["lines"])
    assert lines["Method"] == "made up"
    assert lines["Seed"] == "7"
    assert "Links" not in lines
    assert f"torch {torch.__version__}" in lines["Versions"]
    assert content["figures"]["noise"]["level"] == [0, 12, 20]


def test_the_same_page_is_written_twice(tmp_path):
    one, two = (vg.report(*made_up(), path=tmp_path / name) for name in ("1.html", "2.html"))
    assert one.read_bytes() == two.read_bytes()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["1.html", "2.html"]


@pytest.mark.parametrize(
    ("place", "why"), [("absent/page.html", "there is no folder"), (".", "is a folder")]
)
def test_a_place_where_no_file_can_be_is_named(tmp_path, place, why):
    with pytest.raises(FileError, match=why) as caught:
        vg.report(*made_up(), path=tmp_path / place)
    assert str(tmp_path / place) in str(caught.value)


def test_a_file_that_cannot_be_written_leaves_nothing_behind(tmp_path, full_disk):
    with full_disk(), pytest.raises(FileError, match="cannot be written: No space left"):
        vg.report(*made_up(), path=tmp_path / "page.html")
    assert list(tmp_path.iterdir()) == []


def test_the_answer_is_that_of_all_digits(page):
    prediction, graph = made_up()
    prediction.mean[0] = torch.tensor([0.33333, 0.33334, 0.33333])
    nodes = content_of(vg.report(prediction, graph, path=page))["nodes"]
    assert nodes["mean"][0] == nodes["mean"][1]
    assert nodes["answer"] == prediction.mean.argmax(1).tolist()


@pytest.mark.parametrize("explain", [-1, 1.5, "all"])
def test_a_number_of_nodes_is_a_number(explain, page):
    with pytest.raises(OptionError, match="explain="):
        vg.report(*made_up(), path=page, explain=explain)


def test_without_plotly_the_remedy_is_named(monkeypatch, page):
    monkeypatch.setitem(sys.modules, "plotly.offline", None)
    with pytest.raises(OptionError, match=r"varigraph\[report\]"):
        vg.report(*made_up(), path=page)
    assert not page.exists()


def test_the_links_of_the_page_are_those_of_the_graph(page):
    prediction, graph = made_up()
    links = content_of(vg.report(prediction, graph, path=page))["links"]
    shown = networkx.Graph(zip(links["source"], links["target"], strict=True))
    wanted = networkx.Graph(graph.edge_index.t().tolist())
    assert {frozenset(e) for e in shown.edges} == {frozenset(e) for e in wanted.edges}
