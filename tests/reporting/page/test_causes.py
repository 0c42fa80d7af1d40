from collections import Counter

import pytest
import torch
from torch_geometric.nn import GraphSAGE

import varigraph as vg
from reporting.page.made_up import made_up, regression
from varigraph.reporting.page.nodes import causes, explained
from varigraph.reporting.page.subject import PageSubject

OPTIONS = {"links": "bernoulli", "forward": None}


@pytest.mark.parametrize(("nodes", "count"), [(100, 1), (100, 9), (100, 10), (5, 5), (5, 9)])
def test_the_most_uncertain_and_some_others_are_chosen_once(nodes, count):
    variance = torch.rand(nodes, generator=torch.Generator().manual_seed(count))
    chosen, most = explained(variance, count)
    order = sorted(range(nodes), key=lambda node: -variance[node])
    assert chosen[:most].tolist() == order[:most]
    assert len(set(chosen.tolist())) == len(chosen) == min(nodes, count)
    assert most >= 2 * min(nodes, count) / 3
    if count < nodes and most < count:
        assert int(chosen[-1]) == order[-1]  # the others reach to the most certain node


def sage(graph, outputs):
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return GraphSAGE(graph.num_features, 8, 2, outputs).eval()


def test_causes_add_up_to_the_variance_of_the_answer_with_the_weights_among_them():
    prediction, graph = made_up()
    subject, model = PageSubject.of(prediction, graph), sage(graph, 3)
    found = causes(subject, prediction, model, graph, count=6, **OPTIONS)
    chosen, _ = explained(-prediction.mean.max(1).values, 6)
    assert list(found["nodes"]) == [str(node) for node in chosen.tolist()]
    for name, entry in found["nodes"].items():
        node = int(name)
        output = int(prediction.mean[node].argmax())
        whole = sum(float(var[node, output]) for var in prediction.by_source.values())
        share = {part: float(v[node, output]) / whole for part, v in prediction.by_source.items()}
        by_kind = dict.fromkeys(share, 0.0)
        for cause in entry["causes"]:
            by_kind[cause["kind"]] += cause["share"]
        assert sum(by_kind.values()) + entry["rest"] == pytest.approx(1, abs=1e-6)
        for part in ("weights", "interactions"):
            assert by_kind[part] == pytest.approx(share[part], abs=2e-3)
        assert by_kind["features"] <= share["features"] + 1e-6
        assert by_kind["links"] <= share["links"] + 1e-6
        shares = [cause["share"] for cause in entry["causes"]]
        assert shares == sorted(shares, reverse=True)
    assert "6 of 40 nodes: the 4 least trusted and 2 spread" in found["note"]


def test_features_are_divided_as_attribute_divides_them():
    prediction, graph = made_up()
    del graph.edge_prob
    subject, model = PageSubject.of(prediction, graph), sage(graph, 3)
    found = causes(subject, prediction, model, graph, count=3, **OPTIONS)
    for name, entry in found["nodes"].items():
        node = int(name)
        output = int(prediction.mean[node].argmax())
        blame = vg.attribute(
            model,
            graph,
            node,
            output=output,
            top=1000,
            links="bernoulli",
            prediction=prediction,
        )
        wanted = {cause.node: cause.variance for cause in blame.nodes}
        listed = {c["ends"][0]: c["share"] for c in entry["causes"] if c["kind"] == "features"}
        first, *others = listed
        for other in others:
            ratio = wanted[other] / wanted[first]
            assert listed[other] / listed[first] == pytest.approx(ratio, rel=1e-3)


def test_values_are_explained_too():
    prediction, graph = regression()
    found = causes(
        PageSubject.of(prediction, graph), prediction, sage(graph, 2), graph, count=2, **OPTIONS
    )
    assert len(found["nodes"]) == 2


def test_certain_data_has_no_causes_and_the_page_says_so():
    prediction, graph = made_up()
    del graph.x_var, graph.edge_prob
    found = causes(
        PageSubject.of(prediction, graph), prediction, sage(graph, 3), graph, count=6, **OPTIONS
    )
    assert found["nodes"] == {}
    assert "Nothing in the data is uncertain" in found["note"]


def test_links_read_as_weights_are_no_cause():
    prediction, graph = made_up()
    del graph.x_var
    options = {**OPTIONS, "links": "weight"}
    found = causes(
        PageSubject.of(prediction, graph), prediction, sage(graph, 3), graph, count=6, **options
    )
    assert found["nodes"] == {}


def test_the_causes_of_all_answers_are_the_largest_sums_over_single_answers():
    _, graph = made_up()
    model = sage(graph, 3)
    prediction = vg.predict(model, graph, links="bernoulli", samples=0)
    subject = PageSubject.of(prediction, graph)
    found = causes(subject, prediction, model, graph, count=1, **OPTIONS)
    sums, total = Counter(), 0.0
    for node in range(40):
        for output in range(3):
            one = vg.attribute(
                model,
                graph,
                node,
                output=output,
                links="bernoulli",
                prediction=prediction,
                top=10_000,
            )
            total += one.variance
            sums.update({("features", cause.node): cause.variance for cause in one.nodes})
            sums.update({(c.source, c.target): c.variance for c in one.links})
    wanted = sorted(sums.values(), reverse=True)[: len(found["together"])]
    shares = [cause["share"] for cause in found["together"]]
    assert shares == pytest.approx([variance / total for variance in wanted], rel=1e-3)
    assert f"{100 * sum(shares):.1f} % of the variance" in found["plan"]


def test_a_network_without_a_closed_form_has_no_causes_of_all_answers():
    prediction, graph = made_up()
    del graph.edge_prob

    class Odd(torch.nn.Module):
        def forward(self, x, edge_index):
            return torch.special.i0(x[:, :3])

    found = causes(PageSubject.of(prediction, graph), prediction, Odd(), graph, count=1, **OPTIONS)
    assert found["together"] == []
    assert found["plan"] == ""
