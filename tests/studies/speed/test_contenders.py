"""Rivals answer what they claim to: otherwise their times mean nothing."""

import numpy as np
import pytest
import torch
from torch_geometric.data import Data

import varigraph as vg
from varigraph.moments.softmax import points_per_mask
from varigraph.prediction.masks import Site, draw_masks
from varigraph.studies.speed import contenders
from varigraph.studies.speed.contenders import ALL, BOTH, BY_NAME, DIAGONAL, ONLY_FEATURES, present
from varigraph.studies.speed.workload import Workload, csr_adjacency

NODES, CLASSES = 60, 4


@pytest.fixture(scope="module")
def directed():
    """A graph whose links lead one way only, and a node without any; no loops, none repeated."""
    draw = torch.Generator().manual_seed(3)
    links = torch.randint(0, NODES - 1, (2, 300), generator=draw).unique(dim=1)
    links = links[:, links[0] != links[1]]
    x = torch.rand(NODES, 12, generator=draw)
    labels = torch.arange(NODES) % CLASSES
    return vg.add_noise(Data(x=x, edge_index=links, y=labels), percent=12)


def workload(graph, masks, dropout=0.1):
    return Workload(vg.paper_network(graph, dropout=dropout).eval(), graph, masks)


def test_compressed_rows_hold_the_transposed_adjacency(directed):
    expected = torch.zeros(NODES, NODES)
    for source, target in directed.edge_index.T.tolist():
        expected[target, source] += 1
    assert csr_adjacency(directed).to_dense().equal(expected)


def test_the_forward_is_the_same_with_compressed_rows(directed):
    one = workload(directed, masks=2)
    plain, csr = contenders.plain(one), contenders.plain_csr(one)
    torch.testing.assert_close(csr.logits, plain.logits, atol=1e-5, rtol=1e-5)
    assert plain.logits_var is None


@pytest.mark.parametrize("links", ["edge_index", "adjacency"])
def test_equation_13_by_hand_is_what_predict_answers_for_the_same_masks(directed, links):
    masks, seed = 40, 5
    one = workload(directed, masks)

    def draw(number):
        def at(place, shape):
            site = Site(shape, one.model.dropout)
            return draw_masks(site, place, range(number, number + 1), seed=seed)[0]

        return at

    torch.manual_seed(0)
    given = directed.edge_index if links == "edge_index" else one.adjacency
    found = contenders.looped(one, given, draw)
    ours = vg.predict(one.model, directed, method="diagonal", samples=masks, seed=seed)
    torch.testing.assert_close(found.logits, ours.logits.mean, atol=1e-5, rtol=1e-4)
    torch.testing.assert_close(found.logits_var, ours.logits.var, atol=1e-9, rtol=1e-3)
    # Probabilities come from points of its own: the variance of T sets of 2 n mirrored draws.
    points = masks * points_per_mask(masks, CLASSES) // 2
    torch.testing.assert_close(found.mean, ours.mean, atol=2e-3, rtol=0)
    ratio = (found.total / ours.total).log()
    assert ratio.abs().max() < 5 * np.sqrt(2 / points)


@pytest.fixture(scope="module")
def drawn(directed):
    """Brute force about dropout of rate 0.3."""
    model = workload(directed, masks=2, dropout=0.3).model
    options = {"method": "sampled", "sources": ("weights",), "seed": 9}
    return vg.predict(model, directed, samples=4000, **options)


@pytest.mark.parametrize(
    "run", [contenders.dropout_loop, contenders.dropout_loop_csr, contenders.dropout_vmap]
)
def test_dropout_passes_have_the_moments_of_dropout(directed, drawn, run):
    masks = 400
    torch.manual_seed(0)
    one = workload(directed, masks, dropout=0.3)
    found = run(one)
    error = (drawn.logits.var * (1 / masks + 1 / 4000)).sqrt()
    assert ((found.logits - drawn.logits.mean).abs() < 5.5 * error).all()
    # Tails are heavier than a Gaussian's, and the nodes' masks related: a median over all of them.
    assert (found.logits_var / drawn.logits.var).median() == pytest.approx(1, abs=0.1)
    assert (found.total / drawn.total).median() == pytest.approx(1, abs=0.15)
    assert not one.model.training


def test_without_dropout_every_pass_is_the_plain_forward(directed):
    one = workload(directed, masks=3, dropout=0.0)
    plain = contenders.plain(one).logits
    for run in (contenders.dropout_loop, contenders.dropout_loop_csr, contenders.dropout_vmap):
        found = run(one)
        torch.testing.assert_close(found.logits, plain, atol=1e-5, rtol=1e-5)
        assert found.logits_var.max() < 1e-10


def test_ours_are_those_of_predict(directed):
    one = workload(directed, masks=7)
    found = BY_NAME[DIAGONAL].run(one)
    expected = vg.predict(one.model, directed, method="diagonal", samples=7)
    assert found.total.equal(expected.total)
    assert found.logits_var.equal(expected.logits.var)


@pytest.mark.parametrize("contender", [c for c in ALL if c.sources], ids=lambda c: c.name)
def test_all_but_a_plain_forward_have_variances(directed, contender):
    if contender.run is contenders.torch_uncertainty:
        pytest.importorskip("torch_uncertainty")
    found = contender.run(workload(directed, masks=4))
    for values in (found.logits, found.logits_var, found.mean, found.total):
        assert values.shape == (NODES, CLASSES)
        assert values.isfinite().all()
    assert contender.sources in {ONLY_FEATURES, BOTH, ("weights",)}


@pytest.mark.parametrize("contender", [c for c in ALL if c.loops], ids=lambda c: c.name)
def test_a_loop_can_be_cut_short(directed, contender, monkeypatch):
    if contender.run is contenders.torch_uncertainty:
        pytest.importorskip("torch_uncertainty")
    whole, seen = workload(directed, masks=6), []
    conv = type(whole.model.conv2).forward

    def counted(self, x, *rest, **more):
        seen.append(self)
        return conv(self, x, *rest, **more)

    monkeypatch.setattr(type(whole.model.conv2), "forward", counted)
    contender.run(Workload(whole.model, directed, masks=6, passes=2))
    short = sum(layer is whole.model.conv2 for layer in seen)
    seen.clear()
    contender.run(whole)
    passes = sum(layer is whole.model.conv2 for layer in seen)
    # vmap calls the layer once for all masks, whatever their number.
    assert (short, passes) in {(2, 6), (1, 1)}


def test_a_package_that_is_not_there_has_no_row(monkeypatch):
    monkeypatch.setattr(contenders, "has_torch_uncertainty", lambda: False)
    assert len(present()) == len(ALL) - 1
    monkeypatch.setattr(contenders, "has_torch_uncertainty", lambda: True)
    assert present() == list(ALL)
