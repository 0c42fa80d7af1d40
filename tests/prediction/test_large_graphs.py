"""A graph that is worked on in blocks gets the answer of one that is not."""

import numpy as np
import pytest
import torch
from torch_geometric.data import Data
from torch_geometric.nn import GCN, GIN, GraphSAGE

import varigraph as vg
from varigraph.errors import TooLargeError
from varigraph.prediction import memory, passes

NODES, FEATURES, CLASSES = 400, 6, 3
NETWORKS = {
    "SAGE": lambda: GraphSAGE(FEATURES, 16, 2, CLASSES, dropout=0.5),
    "jumping": lambda: GraphSAGE(FEATURES, 8, 3, CLASSES, dropout=0.5, jk="cat"),
    "normalised": lambda: GCN(FEATURES, 16, 2, CLASSES, dropout=0.3, norm="batch_norm"),
    "GIN": lambda: GIN(FEATURES, 16, 2, CLASSES, dropout=0.2),
    "all nodes at once": lambda: GIN(FEATURES, 16, 2, CLASSES, dropout=0.2, norm="layer_norm"),
    "narrowing": lambda: GraphSAGE(FEATURES, 4, 2, CLASSES, dropout=0.5, act="tanh"),
}
ROW = 12 * 256 * 4  # bytes that a node is thought to need


def graph():
    generator = torch.Generator().manual_seed(0)
    links = torch.randint(NODES, (2, 1500), generator=generator)
    links = links[:, links[0] != links[1]]
    x = torch.randn(NODES, FEATURES, generator=generator)
    return Data(x=x, edge_index=torch.unique(links, dim=1), x_var=torch.tensor(0.2))


@pytest.fixture(autouse=True)
def no_least_memory(monkeypatch):
    """Bounds of a few kilobytes are for tests alone."""
    for name in ("LEAST_ROOM", "BYTES_PER_LINK", "WHILE_PREPARED"):
        monkeypatch.setattr(memory, name, 0)
    monkeypatch.setattr(memory, "TENSORS_OF_ANSWER", 0)
    monkeypatch.setattr(memory, "WHOLE_VALUES", 1e-9)


@pytest.fixture(params=NETWORKS)
def model(request):
    torch.manual_seed(0)
    return NETWORKS[request.param]().eval()


@pytest.mark.parametrize("rows", [16, 100, 399])
@pytest.mark.parametrize("samples", [0, 4])
@pytest.mark.parametrize("uncertain", [False, True], ids=["certain links", "coins"])
def test_the_size_of_a_block_does_not_matter(model, rows, samples, uncertain):
    data = graph()
    if uncertain:
        data.edge_prob = torch.full((data.edge_index.shape[1],), 0.8)
    options = {"method": "diagonal", "samples": samples, "links": "bernoulli"}
    options["sources"] = ("features", "links", "weights") if samples else ("features", "links")
    whole = vg.predict(model, data, **options)
    blocks = vg.predict(model, data, memory=rows * ROW, **options)
    assert torch.allclose(blocks.mean, whole.mean, atol=1e-5)
    for source, var in whole.by_source.items():
        assert torch.allclose(blocks.by_source[source], var, atol=1e-5 * float(whole.total.max()))
    assert torch.allclose(blocks.logits.var, whole.logits.var, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("network", ["SAGE", "jumping", "normalised", "GIN", "narrowing"])
def test_blocks_are_really_used(network, monkeypatch):
    model, widths = NETWORKS[network]().eval(), []
    asked = passes.dropped

    def noted(x, rows, **options):
        widths.append(rows)
        return asked(x, rows, **options)

    monkeypatch.setattr(passes, "dropped", noted)
    vg.predict(model, graph(), method="diagonal", samples=2, memory=100 * ROW)
    assert any(rows is not None and rows.stop - rows.start == 16 for rows in widths)


def test_features_in_a_file(model, tmp_path):
    data = graph()
    np.save(tmp_path / "x.npy", data.x.numpy())
    want = vg.predict(model, data, method="diagonal", samples=3)
    data.x = torch.from_numpy(np.load(tmp_path / "x.npy", mmap_mode="c"))
    found = vg.predict(model, data, method="diagonal", samples=3, memory=100 * ROW)
    assert torch.allclose(found.mean, want.mean, atol=1e-5)
    assert torch.allclose(found.total, want.total, atol=1e-5 * float(want.total.max()))


def test_values_that_must_be_whole_and_do_not_fit_are_refused(monkeypatch):
    monkeypatch.setattr(memory, "WHOLE_VALUES", 1e9)
    model = NETWORKS["narrowing"]().eval()
    with pytest.raises(TooLargeError, match="a sum over neighbours reads 4 numbers of 400 nodes"):
        vg.predict(model, graph(), method="diagonal", samples=0, memory=100 * ROW)


def test_an_answer_that_does_not_fit_is_refused_with_the_amount_that_would_do(monkeypatch):
    monkeypatch.setattr(memory, "TENSORS_OF_ANSWER", 10**6)
    model = NETWORKS["SAGE"]().eval()
    with pytest.raises(TooLargeError, match="the answer for 400 nodes needs") as caught:
        vg.predict(model, graph(), method="diagonal", samples=0, memory=100 * ROW)
    assert caught.value.remedy == 'memory="4578MiB" or more'
