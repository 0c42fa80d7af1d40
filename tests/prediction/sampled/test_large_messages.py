"""Where one message per link does not fit in memory, none is ever formed."""

import importlib
from functools import partial

import pytest
import torch
from torch_geometric.data import Data
from torch_geometric.nn import GCN, GIN, GraphSAGE

import varigraph as vg

#: Links here are coins that silence messages.
predict = partial(vg.predict, links="bernoulli", memory="1GiB")


NETWORKS = {"SAGE": GraphSAGE, "GCN": GCN, "GIN": GIN}


def graph():
    generator = torch.Generator().manual_seed(0)
    links = torch.unique(torch.randint(50, (2, 300), generator=generator), dim=1)
    x = torch.randn(50, 6, generator=generator)
    return Data(x=x, edge_index=links, x_var=torch.tensor(0.2))


@pytest.mark.parametrize("network", NETWORKS)
@pytest.mark.parametrize("uncertain", [False, True], ids=["certain links", "coins"])
def test_no_message_is_formed_beyond_the_memory(network, uncertain, monkeypatch):
    torch.manual_seed(0)
    data, model = graph(), NETWORKS[network](6, 8, 2, 3, dropout=0.5).eval()
    if uncertain:
        data.edge_prob = torch.full((data.edge_index.shape[1],), 0.8)
    want = predict(model, data, method="sampled", samples=8)
    layer = type(model.convs[0])

    def refuse(self, *args, **kwargs):
        raise AssertionError("a message was formed")

    monkeypatch.setattr(layer, "message", refuse)
    shortcuts = importlib.import_module("varigraph.prediction.sampled.shortcuts")
    with monkeypatch.context() as patched:
        patched.setattr(shortcuts, "PART_FOR_MESSAGES", 2**20)
        found = predict(model, data, method="sampled", samples=8)
    assert torch.allclose(found.mean, want.mean, atol=1e-5)
    assert torch.allclose(found.total, want.total, atol=1e-6)
    with pytest.raises(vg.errors.ModelError, match="a message was formed"):
        predict(model, data, method="sampled", samples=8)
